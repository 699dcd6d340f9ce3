"""An execution in words for people: a line about its end, lines about all of it, a row of a table. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from fable_exec.cli.notes import signal_name

__all__ = ["COLUMNS", "details", "essence", "how_it_ended", "row", "style_of"]

Members = Mapping[str, Any]
"""`Execution.to_members()`: what state.json says, and `health`."""

COLUMNS = ("execution", "state", "exit", "accepted", "command")
"""What a row has; all but the last fit a terminal of 80 columns as a rule."""

_ROUGHLY = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_STYLES = {"running": "green", "starting": "green", "completed": "", "stopped": "yellow", "timed_out": "yellow"}
_PROOFS = {
    "cgroup_empty": "its cgroup is empty",
    "pidns_dead": "its PID namespace has ended",
    "echild": "wait(2) knows no child any more",
    "scan": "no: a look at /proc is no proof",
}
_RUNGS = {"pidns": "a PID namespace", "cgroup": "a cgroup", "subreaper": "a subreaper"}
_NAMED = 5


def row(members: Members, now: datetime) -> tuple[str, ...]:
    """One for each of COLUMNS."""
    return (
        members["execution_id"],
        word_for(members),
        _exit(members) or "-",
        _ago(members.get("accepted_at"), now) or "-",
        shlex.join(members.get("argv") or ()) or members.get("error", ""),
    )


def word_for(members: Members) -> str:
    """The one word: why it ended, or how it fares while it has not."""
    return str(members["health"] if members["health"] == "unreadable" else members.get("termination_reason") or members["health"])


def style_of(members: Members) -> str:
    """The colour of that word; red where somebody should look."""
    return _STYLES.get(word_for(members), "red")


def how_it_ended(members: Members) -> str:
    """In a sentence without its subject: reason, status and how long it took; or that it did not, and why nobody knows more."""
    if members["health"] in ("lost", "orphaned"):
        return f"is {members['health']}: its keeper died, and recover records that"
    if members["health"] != "exited":
        return "has not ended"
    took = _seconds_between(members["started_at"], members["finished_at"])
    ended = _exit(members) or members["launch_error"] or "its status is not known"
    after = "" if took is None else f" after {_rough(took)}"
    return f"has ended, {members['termination_reason']}: {ended}{after}"


def essence(members: Members, now: datetime) -> Iterator[tuple[str, str]]:
    """What matters first, by name: who it is, how it fares, why and with what it ended, where its output is."""
    yield "execution", members["execution_id"]
    yield from _told("state", members.get("state"))
    yield "health", members["health"]
    yield from _told("error", members.get("error"))
    yield from _told("reason", _reason(members))
    yield from _told("exit", _exit(members))
    yield from _told("launch error", members.get("launch_error"))
    yield from _told("attempt", _attempt(members))
    yield from _times(members, now)
    yield from _told("output", _log(members))
    yield from _told("keeper's log", members.get("supervisor_log"))


def details(members: Members) -> Iterator[tuple[str, str]]:
    """The rest, by name."""
    yield from _told("job pid", _number(members["runner_pid"]))
    yield from _told("keeper pid", _number(members["supervisor_pid"]))
    yield from _told("held by", _RUNGS.get(members["containment"] or "", members["containment"]))
    yield from _told("proved ended", _proof(members))
    yield from _told("left behind", _left_behind(members["descendants"]))
    yield from _told("not ended", ", ".join(map(str, members["descendants"]["remaining_pids"])))
    yield from _told("check failed", members["descendants"]["error"])
    yield from _told("stop error", members["stop_error"])
    yield from _told("confinement", _confinement(members["confinement"]))
    yield from _told("used", _usage(members["usage"]))
    yield "workspace", members["workspace"]
    yield "command", shlex.join(members["argv"])
    yield from _told("program", members["executable"])
    yield from _told("spec", members["spec"])
    yield from _told("bounds", _bounds(members))
    yield "verdict", members["verdict"]
    if members["verdict"] == "proof":
        yield "proof", _proof_document(members["proof"])
        yield from (("against it", f"{each['reason']}: {each['detail']}") for each in members["proof"]["objections"])
    yield from _told("labels", ", ".join(f"{name}={value}" for name, value in sorted(members["labels"].items())))
    yield "policy", members["policy_digest"]
    yield from _told("boundary", _boundary(members.get("boundary")))
    yield from _told("provider", members.get("provider"))


def _told(name: str, text: str | None) -> Iterator[tuple[str, str]]:
    if text:
        yield name, text


def _number(number: int | None) -> str:
    return "" if number is None else str(number)


def _reason(members: Members) -> str:
    deadline = members.get("deadline")
    notes = [*([f"the {deadline} timeout"] if deadline else ()), *(["SIGKILL was needed"] if members.get("kill_sent") else ())]
    return f"{members.get('termination_reason') or ''}{' (' + ', '.join(notes) + ')' if notes else ''}"


def _exit(members: Members) -> str:
    if members.get("signal") is not None:
        return signal_name(members["signal"])
    return "" if members.get("exit_code") is None else str(members["exit_code"])


def _attempt(members: Members) -> str:
    """Nothing where there was one."""
    number, earlier = members.get("attempt", 1), members.get("attempts", ())
    ends = [
        f"{each['termination_reason']} {signal_name(each['signal']) if each['signal'] else each['returncode']}"
        for each in earlier
    ]
    return "" if number == 1 else f"{number}, after {', '.join(ends[-_NAMED:])}"


def _times(members: Members, now: datetime) -> Iterator[tuple[str, str]]:
    names = {"accepted": "accepted_at", "started": "started_at", "stop asked": "stop_requested_at", "ended": "finished_at"}
    for name, member in names.items():
        if members.get(member):
            yield name, f"{_moment(members[member]):%Y-%m-%d %H:%M:%S}Z, {_ago(members[member], now)}"
    took = _seconds_between(members.get("started_at"), members.get("finished_at"))
    yield from _told("took", None if took is None else f"{took:.1f} s")


def _log(members: Members) -> str:
    path, came, dropped = (members.get(name) for name in ("runner_log", "output_bytes", "output_dropped_bytes"))
    if came is None:
        return path or ""
    return f"{path} ({came - dropped} bytes{f'; {dropped} more were dropped' if dropped else ''})"


def _proof(members: Members) -> str:
    found = members["quiescence_proof"]
    if found in (None, "none"):
        return "" if found is None else "no"
    return f"{_PROOFS.get(found, found)} ({found})"


def _proof_document(proof: Members) -> str:
    if not proof["present"]:
        return "none"
    return f"{'bound' if proof['bound'] else 'not bound'}, {proof['headline'] or 'no headline'}, {proof['run_id']}"


def _left_behind(descendants: Members) -> str:
    found = [str(name) for _, name in descendants["detected_processes"]]
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return f"{', '.join(found[:_NAMED])}{more}"


def _confinement(applied: list[Members] | None) -> str:
    if applied is None:
        return ""
    weaker = [f"{each['protection']}: {each['state']} ({each['reason']})" for each in applied if each["state"] != "active"]
    return "; ".join([f"{len(applied) - len(weaker)} of {len(applied)} protections active", *weaker])


def _boundary(record: Members | None) -> str:
    return "" if record is None else f"{record['kind']}, {record['config_sha256']}"


def _usage(usage: Members | None) -> str:
    if usage is None:
        return ""
    processor = usage["user_seconds"] + usage["system_seconds"]
    return f"{processor:.2f} s of processor, {usage['peak_kibibytes'] / 1024:.1f} MiB at most"


def _bounds(members: Members) -> str:
    names = {"hard timeout": "hard_timeout_seconds", "idle timeout": "idle_timeout_seconds", "stop grace": "stop_grace_seconds"}
    return ", ".join(f"{name} {members[member]:g} s" for name, member in names.items() if members[member] is not None)


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)


def _seconds_between(before: str | None, after: str | None) -> float | None:
    return None if before is None or after is None else (_moment(after) - _moment(before)).total_seconds()


def _ago(text: str | None, now: datetime) -> str:
    return "" if text is None else f"{_rough((now - _moment(text)).total_seconds())} ago"


def _rough(seconds: float) -> str:
    """In the largest unit of which it is at least two, so that nothing is rounded by more than half."""
    for unit, name in _ROUGHLY:
        if seconds >= 2 * unit:
            return f"{int(seconds // unit)} {name}"
    return f"{max(seconds, 0.0):.1f} s"

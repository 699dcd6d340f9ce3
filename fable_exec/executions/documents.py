"""What state.json says, member by member, in each of the three states. Pure: the same facts make the same members.

Every member is there from the start, null until it is known (docs/reference/supervision.md). What an execution is defined by
never changes after `accepted`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from fable_exec.lifecycle import Facts, State, terminal_reason
from fable_exec.outcome import Applied
from fable_exec.procident.identity import ProcessIdentity

__all__ = [
    "Attempt",
    "Containment",
    "Emptiness",
    "Usage",
    "accepted",
    "attempted",
    "kept_by",
    "no_proof",
    "outcome",
    "running",
    "unproved",
]

_LONGEST_ERROR = 500
_MOST_REMAINING = 64
_MOST_ATTEMPTS = 20


@attrs.frozen(kw_only=True)
class Usage:
    """What leaders and the children that they waited for used, and the most that a whole tree was seen with; None: unseen."""

    user_seconds: float
    system_seconds: float
    peak_kibibytes: int
    peak_processes: int | None = None

    def with_earlier(self, earlier: Usage | None) -> Usage:
        """This attempt's and that of those before it: times are added, peaks are not."""
        if earlier is None:
            return self
        return Usage(
            user_seconds=self.user_seconds + earlier.user_seconds,
            system_seconds=self.system_seconds + earlier.system_seconds,
            peak_kibibytes=max(self.peak_kibibytes, earlier.peak_kibibytes),
            peak_processes=max(self.peak_processes or 0, earlier.peak_processes or 0) or None,
        )


@attrs.frozen(kw_only=True)
class Emptiness:
    """What was found when the leader was gone, and by what it was proved that nothing is left.

    Args:
        proof: cgroup_empty, pidns_dead or echild; "none" proves nothing.
        found: [pid in the job's own numbers, name] of those that were alive beside the leader.
        remaining: the same of those that could not be ended.
        term_sent, kill_sent: whether they were told to end, and made to.
    """

    proof: str = "none"
    found: Sequence[Sequence[Any]] = ()
    remaining: Sequence[Sequence[Any]] = ()
    term_sent: bool = False
    kill_sent: bool = False


def accepted(
    *,
    execution_id: str,
    schema_version: int,
    request: Mapping[str, Any],
    supervisor: ProcessIdentity,
    accepted_at: str,
) -> dict[str, Any]:
    """The whole document of an execution that was just accepted.

    Args:
        request: what it is defined by, as `supervisor.planning` makes it: its members stand in the document as they are.
        supervisor: the keeper.
    """
    return {
        **dict.fromkeys(_LATER),
        **request,
        "schema_version": schema_version,
        "execution_id": execution_id,
        "state": State.ACCEPTED.value,
        "accepted_at": accepted_at,
        "attempt": 1,
        "attempts": [],
        **kept_by(supervisor),
        "descendants": _descendants(Facts(), None),
        "proof": _not_yet() if request["verdict"] == "proof" else no_proof("not-asked", "no proof was asked for"),
    }


_LATER = (
    "started_at",
    "exited_at",
    "finished_at",
    "runner_pid",
    "runner_pgid",
    "runner_sid",
    "runner_birth_token",
    "runner_identity",
    "returncode",
    "exit_code",
    "signal",
    "termination_reason",
    "launch_error",
    "launch_errno",
    "deadline",
    "stop_requested_at",
    "stop_signal_sent_at",
    "stop_error",
    "kill_sent",
    "confinement",
    "containment",
    "control_group",
    "quiescence_proof",
    "run_id",
    "final_tree_sha256",
    "usage",
    "output_bytes",
    "output_dropped_bytes",
    "planted_files",
)


def kept_by(supervisor: ProcessIdentity) -> dict[str, Any]:
    """The members that name the keeper."""
    return {
        "supervisor_pid": supervisor.pid,
        "supervisor_birth_token": None if supervisor.birth is None else str(supervisor.birth),
        "supervisor_identity": supervisor.to_members(),
    }


@attrs.frozen
class Containment:
    """What holds the job together: the rung of the ladder, what the plan gives, and the path of the job's control group."""

    rung: str
    applied: tuple[Applied, ...]
    control_group: str | None = None


def running(runner: ProcessIdentity, containment: Containment, started_at: str) -> dict[str, Any]:
    """What is added once the leader waits at its gate. It leads a session and a group of its own."""
    return {
        "state": State.RUNNING.value,
        "started_at": started_at,
        "runner_pid": runner.pid,
        "runner_pgid": runner.pid,
        "runner_sid": runner.pid,
        "runner_birth_token": None if runner.birth is None else str(runner.birth),
        "runner_identity": runner.to_members(),
        "containment": containment.rung,
        "control_group": containment.control_group,
        "confinement": [attrs.asdict(each) for each in containment.applied],
    }


@attrs.frozen
class Attempt:
    """How one attempt ended that was followed, or is to be followed, by another one."""

    facts: Facts
    started_at: str
    exited_at: str | None


def attempted(number: int, earlier: Sequence[Attempt]) -> dict[str, Any]:
    """What is told of attempts: the number of the last that was begun, and how others ended, the last of them."""
    told = [
        {
            "started_at": each.started_at,
            "exited_at": each.exited_at,
            "returncode": each.facts.returncode,
            "signal": each.facts.signal,
            "termination_reason": terminal_reason(each.facts).value,
        }
        for each in earlier[-_MOST_ATTEMPTS:]
    ]
    return {"attempt": number, "attempts": told}


def outcome(
    facts: Facts,
    *,
    finished_at: str,
    exited_at: str | None = None,
    emptiness: Emptiness | None = None,
    usage: Usage | None = None,
    proof: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """How it ended: what the terminal record gets.

    Args:
        exited_at: when the leader's end was noticed; None when it never ran, or nobody noticed.
        emptiness: None when nobody looked.
        proof: what the job's proof came to; None where none was asked for, which stands there since the beginning.
    """
    return {
        "state": State.EXITED.value,
        "exited_at": exited_at,
        "finished_at": finished_at,
        "returncode": facts.returncode,
        "exit_code": facts.exit_code,
        "signal": facts.signal,
        "termination_reason": terminal_reason(facts).value,
        "launch_error": None if facts.launch_error is None else facts.launch_error[:_LONGEST_ERROR],
        "launch_errno": facts.exec_errno,
        "deadline": None if facts.deadline is None else facts.deadline.value,
        "kill_sent": facts.kill_sent or (emptiness is not None and emptiness.kill_sent),
        "quiescence_proof": "none" if emptiness is None else emptiness.proof,
        "descendants": _descendants(facts, emptiness),
        "usage": None if usage is None else attrs.asdict(usage),
        **({} if proof is None else {"proof": dict(proof)}),
    }


def no_proof(why: str, detail: str) -> dict[str, Any]:
    """The member `proof` where there is none, with every member that it has where there is one."""
    reason = f"document-{why}"
    return {
        "present": False, "run_id": "", "headline": "", "tree_sha256": "", "document_sha256": "", "proof_path": "",
        "snapshotted": False, "snapshot_error": "", "tree_fields_agree": True, "execution": {}, "failed_quality_gates": [],
        "integrity": None, "bound": False, "reason": reason, "reasons": [reason], "axes": {}, "tree_profile": None,
        "tree_level": None, "tree_unproven": 0, "objections": [{"reason": reason, "detail": detail}],
    }  # fmt: skip


def _not_yet() -> dict[str, Any]:
    return no_proof("not-ended", "the execution has not ended")


def unproved(facts: Facts) -> dict[str, Any]:
    """The member `proof` of an execution whose proof was asked for and could not be looked at."""
    if facts.launch_error is not None:
        return no_proof("not-launched", "the job never ran")
    if facts.descendants_detected or facts.descendant_error:
        return no_proof("survivors", "what is made while others may still write is no evidence")
    return no_proof("not-looked-for", "nobody looked for it when the job ended")


def _descendants(facts: Facts, emptiness: Emptiness | None) -> dict[str, Any]:
    looked = emptiness is not None and not facts.descendant_error
    found = emptiness or Emptiness()
    return {
        "checked": looked,
        "detected": facts.descendants_detected,
        "detected_processes": [list(each[:2]) for each in found.found][:_MOST_REMAINING],
        "quiescent": facts.descendants_quiescent,
        "term_sent": found.term_sent,
        "kill_sent": found.kill_sent,
        "remaining_pids": [each[0] for each in found.remaining][:_MOST_REMAINING],
        "error": facts.descendant_error[:_LONGEST_ERROR] or None,
    }

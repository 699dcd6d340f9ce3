"""How a command ended: what the launcher said of it, what was wanted of it, and the outcome that these make."""

from __future__ import annotations

import os
from typing import Any

from fable_exec.errors import ConfinementUnavailable, LaunchFailed
from fable_exec.outcome import Applied, Denial, EndedBy, Observed, Outcome, Survivor, display_text
from fable_exec.runner.denials import denials_of
from fable_exec.runner.streams import Streams

_KILLED = 9
_MAX_SHOWN = 200
_LIMIT_REASONS = {"memory": EndedBy.MEMORY_LIMITED, "processes": EndedBy.PIDS_LIMITED}
_UNKNOWN: dict[str, Any] = {
    "status": None, "user": 0.0, "system": 0.0, "peak": 0, "processes": 0, "reason": None, "unpinned": None
}  # fmt: skip


class Ending:
    """The facts of one command's end, as they come.

    Args:
        applied: what held for it. observed: what an observer notes of it.
    """

    def __init__(self, applied: tuple[Applied, ...], observed: Observed) -> None:
        self._applied = applied
        self._observed = observed
        self.wanted: EndedBy | None = None
        """What this side asked the launcher to end it for, the first time."""
        self.lost = False
        """The launcher or the command's place went away."""
        self.contained = False
        """The tree was proved gone."""
        self.found: tuple[Denial, ...] = ()
        """What the look after the command found."""
        self._has_word = False
        self._exit = _UNKNOWN
        self._survivors: tuple[Survivor, ...] = ()
        self._refused: tuple[Denial, ...] = ()
        self._unsure: tuple[Denial, ...] = ()
        self._refused_beyond = 0

    def note_exit(self, message: dict[str, Any]) -> None:
        """The launcher's word on the leader."""
        self._exit = message

    def note_done(self, message: dict[str, Any]) -> None:
        """The launcher's word on the whole tree."""
        self._has_word = True
        self._survivors = tuple(Survivor(pid, name) for pid, name in message["survivors"])
        if "refusals" in message:
            self._refused, self._refused_beyond = denials_of(message["refusals"]), message["beyond"]
            self._unsure = denials_of(message["unsure"])
        self.lost = message["lost"]

    @property
    def unpinned(self) -> tuple[int, str, int] | None:
        """What could not be kept from being changed: errno, the first path, how many; None when all was."""
        return self._exit["unpinned"]  # type: ignore[no-any-return]  # as the launcher sends it

    def _applied_in_fact(self) -> tuple[Applied, ...]:
        applied = self._applied
        if not self.contained:
            applied = _weakened(applied, "whole_tree_end", "the tree was not proved gone in time")
        if self.unpinned is not None:
            applied = _weakened(applied, "later_files", _not_pinned(*self.unpinned))
        return applied

    def outcome(self, streams: Streams, duration_seconds: float) -> Outcome:
        """What happened."""
        code, signal = _decoded(self._exit["status"])
        how = ended_by(
            wanted=self.wanted,
            launcher_reason=self._exit["reason"],
            code=code,
            signal=signal,
            overflowed=streams.overflowed,
            lost=self.lost,
        )
        succeeded = how is EndedBy.EXITED and code == 0
        return Outcome(
            ended_by=how,
            exit_code=code,
            signal=signal,
            stdout=streams.captured("stdout"),
            stderr=streams.captured("stderr"),
            duration_seconds=duration_seconds,
            user_cpu_seconds=self._exit["user"],
            system_cpu_seconds=self._exit["system"],
            peak_rss_bytes=self._exit["peak"] * 1024,
            peak_processes=self._exit["processes"],
            survivors=self._survivors,
            applied=self._applied_in_fact(),
            denials=(*self._refused, *(() if succeeded else self._unsure), *self.found),
            denials_omitted=self._refused_beyond + (len(self._unsure) if succeeded else 0),
            observed=self._observed if self._has_word else Observed.OFF,  # what was noted came with that word
        )


def ended_by(
    *, wanted: EndedBy | None, launcher_reason: str | None, code: int | None, signal: int | None, overflowed: bool, lost: bool
) -> EndedBy:
    """The reason that made the leader end; a reason that came too late to touch it does not count.

    Args:
        wanted: what this side asked the launcher to end it for, if it did.
        launcher_reason: why the launcher ended the leader: "deadline", "ended" (asked to), "memory", "processes" or "cpu" (the
            whole tree exceeded that limit), or None (it did not).
        code, signal: the leader's status, both None when nobody reaped it.
        overflowed: more output came than may be kept, and that ends a command.
        lost: the launcher or the place went away: a kill that came with that is not the command's own end.
    """
    if overflowed:
        return EndedBy.OUTPUT_LIMITED
    if lost and (code is None or signal is not None):
        return EndedBy.BROKER_LOST
    if launcher_reason is None and code is None and signal is None:
        return wanted or EndedBy.BROKER_LOST
    if launcher_reason in _LIMIT_REASONS and code != 0:
        return _LIMIT_REASONS[launcher_reason]  # the limit was exceeded; one that fails for it has not ended by itself
    if launcher_reason is not None and launcher_reason != "cpu" and signal == _KILLED:
        return EndedBy.TIMED_OUT if launcher_reason == "deadline" else wanted or EndedBy.CANCELLED
    return EndedBy.EXITED if signal is None else EndedBy.SIGNALED


def _decoded(status: int | None) -> tuple[int | None, int | None]:
    """(exit code, signal) of a wait status."""
    if status is None:
        return None, None
    code = os.waitstatus_to_exitcode(status)
    return (code, None) if code >= 0 else (None, -code)


def failure_of(stage: str, number: int, what: str) -> LaunchFailed | ConfinementUnavailable:
    """Why a command was not started. A pin that is insisted on is a protection, not a fault of the launcher."""
    if stage != "pins":
        return LaunchFailed.at(stage, number, what)
    reason = _not_pinned(number, what, 1)
    return ConfinementUnavailable(
        f'protection "later_files" is strict, and {reason}. Move it away or make the protection "degradable" in the policy.',
        protection="later_files",
        reason=reason,
        errno=number,
    )


def _weakened(applied: tuple[Applied, ...], protection: str, reason: str) -> tuple[Applied, ...]:
    """`applied` with one protection degraded, and why."""
    return tuple(
        Applied(each.protection, each.mode, "degraded", each.means, reason) if each.protection == protection else each
        for each in applied
    )


def _not_pinned(number: int, path: str, count: int) -> str:
    more = "" if count == 1 else f" and {count - 1} more"
    return f"the kernel refused to pin {display_text(path)[:_MAX_SHOWN]}{more}: {os.strerror(number)}"

"""What a person should know about a command that ran and that its own output does not say. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from fable_exec.outcome import EndedBy
from fable_exec.protocol import CommandResult

__all__ = ["notes_on"]

_NAMED_SURVIVORS = 5
_NAMED_DENIALS = 10


def notes_on(result: CommandResult, *, streamed: bool) -> Iterator[str]:
    """The notes, none for a command that ended by itself and left nothing behind."""
    if result.outcome not in (EndedBy.EXITED, EndedBy.SIGNALED):
        yield f"{_ENDINGS[result.outcome]} after {result.duration_seconds:.1f} s"
    if result.survivors:
        yield _survivors(result)
    if not streamed or result.outcome is EndedBy.OUTPUT_LIMITED:
        for name in ("stdout", "stderr"):
            omitted = getattr(result, f"{name}_omitted_bytes")
            if omitted:
                yield f"{omitted} bytes of {name} omitted"
    for denial in result.denials[:_NAMED_DENIALS]:
        suggestion = f": {denial.suggestion}" if denial.suggestion else ""
        yield f"refused: {denial.operation} {denial.path or denial.address} ({denial.protection}){suggestion}"
    more = max(0, len(result.denials) - _NAMED_DENIALS) + result.denials_omitted
    if more:
        yield f"refused: {more} more"


_ENDINGS = {
    EndedBy.TIMED_OUT: "timed out: everything was ended",
    EndedBy.IDLE_TIMED_OUT: "no output for too long: everything was ended",
    EndedBy.OUTPUT_LIMITED: "too much output: everything was ended",
    EndedBy.MEMORY_LIMITED: "too much memory: everything was ended",
    EndedBy.PIDS_LIMITED: "too many processes: everything was ended",
    EndedBy.CANCELLED: "interrupted: everything was ended",
    EndedBy.BROKER_LOST: "the launcher was lost, and everything it ran with it; how the command ended is not known",
}


def _survivors(result: CommandResult) -> str:
    """Their numbers are left out: they are those of a namespace that is gone."""
    named = ", ".join(each.name for each in result.survivors[:_NAMED_SURVIVORS])
    more = len(result.survivors) - _NAMED_SURVIVORS
    what = "1 other process was" if len(result.survivors) == 1 else f"{len(result.survivors)} other processes were"
    return f"{what} still alive and ended: {named}{f' and {more} more' if more > 0 else ''}"

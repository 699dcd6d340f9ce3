"""What a person should know about a command that ran and that its own output does not say. Pure."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping

from fable_exec.cli.exits import Exit, is_failed_by_policy
from fable_exec.outcome import Denial, EndedBy
from fable_exec.policy import BrokerPolicy
from fable_exec.protocol import CommandResult, StartCommand
from fable_exec.runner.denials import is_look_up

__all__ = ["Bounds", "bounds_of", "notes_on"]

Bounds = Mapping[EndedBy | int, str]
"""What ends a command, by the reason or the signal of that end: the field or flag, with its value."""

_NAMED_SURVIVORS = 5
_NAMED_DENIALS = 10
_NAMED_PLACES = 3
_NAMED_SIGNALS = {int(each) for each in signal.Signals}
_SIGXCPU = int(getattr(signal, "SIGXCPU", 0))
_SIGXFSZ = int(getattr(signal, "SIGXFSZ", 0))


_NO_BOUNDS: Bounds = {}


def bounds_of(policy: BrokerPolicy, request: StartCommand) -> Bounds:
    """What bounds `request` under `policy`, as it was given: by a flag of `run`, else by the policy's field."""
    limits = policy.limits
    given: dict[EndedBy | int, tuple[str, float | None]] = {
        EndedBy.OUTPUT_LIMITED: ("max_output_bytes", policy.max_output_bytes),
        EndedBy.MEMORY_LIMITED: ("limits.memory_bytes", limits.memory_bytes),
        EndedBy.PIDS_LIMITED: ("limits.processes", limits.processes),
        EndedBy.TIMED_OUT: ("limits.timeout_seconds", limits.timeout_seconds),
        EndedBy.IDLE_TIMED_OUT: ("limits.idle_timeout_seconds", limits.idle_timeout_seconds),
        _SIGXCPU: ("limits.cpu_seconds", limits.cpu_seconds),
        _SIGXFSZ: ("limits.file_size_bytes", limits.file_size_bytes),
    }
    told = {cause: f"{name} = {value:.15g}" for cause, (name, value) in given.items() if value is not None}
    if request.timeout_seconds is not None:
        told[EndedBy.TIMED_OUT] = f"--timeout {request.timeout_seconds:.15g}"
    if request.idle_timeout_seconds is not None:
        told[EndedBy.IDLE_TIMED_OUT] = f"--idle-timeout {request.idle_timeout_seconds:.15g}"
    return told


def notes_on(
    result: CommandResult, *, streamed: bool, interrupted_by: int | None = None, bounds: Bounds = _NO_BOUNDS
) -> Iterator[str]:
    """The notes, none for a command that exited by itself and left nothing behind.

    Args:
        streamed: whether all its output has been shown. interrupted_by: the signal that asked us to end.
        bounds: what the command was bounded by.
    """
    if interrupted_by is not None:
        yield f"interrupted by {signal_name(interrupted_by)}: everything was ended after {result.duration_seconds:.1f} s"
    elif result.outcome is EndedBy.SIGNALED and result.signal is not None:
        yield f"ended by {signal_name(result.signal)}{_bound(bounds, result.signal)} after {result.duration_seconds:.1f} s"
    elif result.outcome in _ENDINGS:
        what, then = _ENDINGS[result.outcome]
        yield f"{what}{_bound(bounds, result.outcome)}{then} after {result.duration_seconds:.1f} s"
    if result.survivors:
        yield _survivors(result)
    if not streamed or result.outcome is EndedBy.OUTPUT_LIMITED:
        for name in ("stdout", "stderr"):
            omitted = getattr(result, f"{name}_omitted_bytes")
            if omitted:
                yield f"{omitted} bytes of {name} omitted"
    yield from _refusals(result)
    if any(denial.fails for denial in result.denials):
        instead = f": exit status {int(Exit.DENIED)} instead of the command's 0" if is_failed_by_policy(result) else ""
        yield f"this counts as a failure under the policy{instead}"


_ALL_ENDED = ": everything was ended"
_ENDINGS = {
    EndedBy.TIMED_OUT: ("timed out", _ALL_ENDED),
    EndedBy.IDLE_TIMED_OUT: ("no output for too long", _ALL_ENDED),
    EndedBy.OUTPUT_LIMITED: ("too much output", _ALL_ENDED),
    EndedBy.MEMORY_LIMITED: ("too much memory", _ALL_ENDED),
    EndedBy.PIDS_LIMITED: ("too many processes", _ALL_ENDED),
    EndedBy.CANCELLED: ("cancelled", _ALL_ENDED),
    EndedBy.BROKER_LOST: ("the launcher was lost", ", and everything it ran with it; how the command ended is not known"),
}


def _bound(bounds: Bounds, cause: EndedBy | int) -> str:
    return f" ({bounds[cause]})" if cause in bounds else ""


def signal_name(number: int) -> str:
    """`number` as people know it."""
    if number == signal.SIGINT:
        return "SIGINT (Ctrl-C)"
    return signal.Signals(number).name if number in _NAMED_SIGNALS else f"signal {number}"


def _refusals(result: CommandResult) -> Iterator[str]:
    """One line for all of a kind: a program that tries everywhere, or again and again, is told once."""
    kinds: dict[tuple[str, str], list[Denial]] = {}
    for denial in result.denials:
        kinds.setdefault((denial.operation, denial.protection), []).append(denial)
    named = list(kinds.values())[:_NAMED_DENIALS]
    harmless = [alike for alike in named if result.success and all(map(is_look_up, alike))]
    yield from map(_look_up, harmless)
    yield from (_refusal(alike) for alike in named if alike not in harmless)
    more = len(result.denials) - sum(map(len, named)) + result.denials_omitted
    if more and len(named) > len(harmless):  # what is only counted is what the command did without
        yield f"refused: {more} more"


def _look_up(alike: list[Denial]) -> str:
    """No alarm: git, to name one, asks for its own host's name where no identity is set, and goes on."""
    first = alike[0]
    what = f"{first.operation} {first.address} ({first.protection})"
    return f"succeeded without {what}: probably the look-up of a name, as git makes one where it has no identity"


def _refusal(alike: list[Denial]) -> str:
    """`alike` are of one operation and one protection."""
    first = alike[0]
    places = [place for place in dict.fromkeys(each.path or each.address for each in alike) if place]
    more = f" and {len(places) - _NAMED_PLACES} more" if len(places) > _NAMED_PLACES else ""
    suggestion = f": {first.suggestion}" if first.suggestion else ""
    if any(each.suggestion != first.suggestion for each in alike):
        suggestion += "; --json tells it of each"
    elif first.protection == "workspace_writes":
        suggestion += " (--unlocked)"  # whoever types `run` is the administrator
    times = f" {len(alike)} times" if len(alike) > 1 else ""
    where = f" {', '.join(places[:_NAMED_PLACES])}{more}" if places else ""
    return f"refused{times}: {first.operation}{where} ({first.protection}){suggestion}"


def _survivors(result: CommandResult) -> str:
    """Their numbers are left out: they are those of a namespace that is gone."""
    named = ", ".join(each.name for each in result.survivors[:_NAMED_SURVIVORS])
    more = len(result.survivors) - _NAMED_SURVIVORS
    what = "1 other process was" if len(result.survivors) == 1 else f"{len(result.survivors)} other processes were"
    return f"{what} still alive and ended: {named}{f' and {more} more' if more > 0 else ''}"

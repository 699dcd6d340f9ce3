"""`fable-exec deadline`: one command under a hard and an idle deadline, in this process, its end told by the exit status."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence

import click

from fable_exec.cli.exits import Exit, of_run_failure
from fable_exec.cli.notes import signal_name
from fable_exec.cli.showing import at_the_door, one_line
from fable_exec.deadline import CancelFile, DeadlineEnd, DeadlineResult, Terms, run_here, tell
from fable_exec.errors import InvalidRequest
from fable_exec.outcome import Survivor

__all__ = ["command"]

_NAMED = 5


@click.command(
    "deadline",
    short_help="Run one command under a deadline and end all that it started.",
    context_settings={"allow_interspersed_args": False},
)
@click.option("--cancel-file", metavar="PATH", help="A file that stops the command; see the manual for what it must be.")
@click.argument("words", metavar="HARD GRACE [IDLE] -- CMD ...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(cancel_file: str | None, words: tuple[str, ...]) -> int:
    """Run CMD for HARD seconds at most, IDLE seconds without output; then SIGTERM, and SIGKILL after GRACE seconds.

    \b
    Exit status: the command's own, or
      2      wrong usage; nothing was started
      124    a deadline ended it; standard error has one line of JSON
      125    fable-exec itself failed, or the command left processes behind
      126    not executable
      127    not found
      128+N  ended by signal N, or we were, by TERM, INT or HUP: 143, 130, 129
      141    nobody reads the output any more
      143    also: stopped by the cancel file
    """
    terms, argv = _parsed(words)
    stops = [] if cancel_file is None else [_opened(cancel_file)]

    def act() -> int:
        result, ends_a_line = run_here(terms, argv, stops)
        has_timed_out = result.exit_status == Exit.TIMED_OUT and result.ended_by is not DeadlineEnd.EXITED
        lines = [_timeout_line(result, terms)] if has_timed_out else [_line(note) for note in _notes(result, cancel_file)]
        if lines:
            tell(("" if ends_a_line else "\n") + "".join(lines))
        return result.exit_status

    return at_the_door(act, as_json=False, status_of=of_run_failure)


def _parsed(words: Sequence[str]) -> tuple[Terms, Sequence[str]]:
    if "--" not in words:
        raise click.UsageError("Put -- between the seconds and the command.")
    numbers, argv = words[: words.index("--")], words[words.index("--") + 1 :]
    if len(numbers) not in (2, 3):
        raise click.UsageError("Give HARD GRACE [IDLE] -- CMD: two or three numbers of seconds.")
    if not argv or not argv[0]:
        raise click.UsageError("There is no command after --.")
    try:
        return Terms(*map(_seconds, numbers)), argv
    except InvalidRequest as error:
        raise click.UsageError(f"{str(error)[0].upper()}{str(error)[1:]}.") from None


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidRequest(f"'{one_line(text)}' is no number of seconds") from None


def _opened(path: str) -> CancelFile:
    try:
        return CancelFile(path, lambda reason: tell(_line(f"cancel file refused: {reason}"), wait=False))
    except InvalidRequest as error:
        raise click.BadParameter(str(error), param_hint="--cancel-file") from None
    except OSError as error:
        raise click.BadParameter(f"its directory: {error.strerror}", param_hint="--cancel-file") from None


def _timeout_line(result: DeadlineResult, terms: Terms) -> str:
    members = {"type": "deadline", "reason": result.ended_by.value, "hard_seconds": terms.hard, "idle_seconds": terms.idle}
    return f"{json.dumps(members)}\n"


def _line(text: str) -> str:
    return f"fable-exec: {one_line(text)}\n"


def _notes(result: DeadlineResult, cancel_file: str | None) -> Iterator[str]:
    """What the exit status does not say. Nothing for a command that ended by itself and left nothing, nor for a closed pipe."""
    if result.ended_by is DeadlineEnd.SIGNAL:
        yield f"interrupted by {signal_name(result.signal)}{_and_all_ended(result)}"
    elif result.ended_by is DeadlineEnd.STOPPED:
        yield f"stopped by the cancel file {cancel_file}{_and_all_ended(result)}"
    elif result.ended_by is DeadlineEnd.OUTPUT_FAILED:
        yield f"the output could not be passed on: {os.strerror(result.errno)}{_and_all_ended(result)}"
    elif result.ended_by in (DeadlineEnd.HARD_TIMEOUT, DeadlineEnd.IDLE_TIMEOUT):
        yield f"{result.ended_by.value.replace('_', ' ')}"
    if result.left_behind:
        yield f"the command ended ({_told(result.returncode)}) and left processes behind: {_named(result.left_behind)}"
    if not result.quiescent:
        named = f": {_named(result.unended)}" if result.unended else " of dead processes that somebody traces"
        yield f"not everything could be ended{named}"


def _and_all_ended(result: DeadlineResult) -> str:
    return f": everything was ended after {result.duration_seconds:.1f} s" if result.quiescent else ""


def _told(returncode: int | None) -> str:
    if returncode is None or returncode < 0:
        return "by an unknown cause" if returncode is None else signal_name(-returncode)
    return f"status {returncode}"


def _named(survivors: Sequence[Survivor]) -> str:
    named = ", ".join(f"{each.name} ({each.pid})" for each in survivors[:_NAMED])
    return f"{named} and {len(survivors) - _NAMED} more" if len(survivors) > _NAMED else named

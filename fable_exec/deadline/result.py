"""How a command under a deadline ended, and the exit status that says so. Pure."""

from __future__ import annotations

from enum import Enum

import attrs

from fable_exec.lifecycle import SIGNAL_BASE
from fable_exec.outcome import Survivor

__all__ = ["DeadlineEnd", "DeadlineResult"]

_TIMED_OUT, _OWN_FAILURE, _PIPE_CLOSED, _TERMINATED = 124, 125, 141, 143


class DeadlineEnd(Enum):
    """Why a command ended."""

    EXITED = "exited"
    """By itself; also by a signal that it did not get from us."""
    HARD_TIMEOUT = "hard_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    SIGNAL = "signal"
    """TERM, INT or HUP came and was passed on."""
    STOPPED = "stopped"
    """By a cancel file; by the end of the embedding process."""
    READER_GONE = "reader_gone"
    """Nobody reads its output any more."""
    OUTPUT_FAILED = "output_failed"
    """Its output could not be passed on: a full disk, for instance."""


@attrs.frozen(kw_only=True)
class DeadlineResult:
    """What became of a command that was started.

    Args:
        ended_by: why it ended.
        returncode: of its first process, as `subprocess` tells it: negative for a signal. None: it could not be ended, or a
            signal came before it was started.
        signal: the number of the signal that was passed on, or 0.
        left_behind: who was still alive, 64 at most, when the first process had exited by itself. They were ended.
        unended: who could not be ended, 64 at most, such as a process that is traced from outside. They may still run.
        quiescent: whether the kernel has told that nothing of the command is left. False is no more than that: not proved.
        kill_sent: whether SIGKILL was needed.
        errno: of a failed output, else 0.
        duration_seconds: from the start to the proof and to the delivery of the output.
    """

    ended_by: DeadlineEnd
    returncode: int | None
    signal: int = 0
    left_behind: tuple[Survivor, ...] = ()
    unended: tuple[Survivor, ...] = ()
    quiescent: bool = True
    kill_sent: bool = False
    errno: int = 0
    duration_seconds: float = 0.0

    @property
    def exit_status(self) -> int:
        """The exit status of `fable-exec deadline`: docs/reference/cli.md has the table."""
        if not self.quiescent or self.left_behind:
            return _OWN_FAILURE
        if self.ended_by is DeadlineEnd.EXITED and self.returncode is not None:
            return self.returncode if self.returncode >= 0 else SIGNAL_BASE - self.returncode
        if self.ended_by is DeadlineEnd.SIGNAL:
            return SIGNAL_BASE + self.signal
        return _OF_ENDS.get(self.ended_by, _OWN_FAILURE)


_OF_ENDS = {
    DeadlineEnd.HARD_TIMEOUT: _TIMED_OUT,
    DeadlineEnd.IDLE_TIMEOUT: _TIMED_OUT,
    DeadlineEnd.STOPPED: _TERMINATED,
    DeadlineEnd.READER_GONE: _PIPE_CLOSED,
}

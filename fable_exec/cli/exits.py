"""Exit statuses: from what happened to a number. docs/reference/cli.md has the same table, and a test keeps them equal.

`run` follows timeout(1), env(1) and the shells, so that a caller can tell the command's own status from ours; the other commands
know 0, 1 and 2.
"""

from __future__ import annotations

from enum import IntEnum

from fable_exec.errors import (
    Conflict,
    Denied,
    IdentityLost,
    InvalidRequest,
    LaunchFailed,
    PolicyError,
    SignalRefused,
    StateUnreadable,
    UnknownExecution,
)
from fable_exec.outcome import EndedBy
from fable_exec.protocol import CommandResult

__all__ = [
    "Exit",
    "SuperviseExit",
    "is_failed_by_policy",
    "of_failure",
    "of_result",
    "of_run_failure",
    "of_signal",
    "of_supervise_failure",
]


class Exit(IntEnum):
    """The statuses that have a meaning of their own."""

    OK = 0
    FAILED = 1
    USAGE = 2
    TIMED_OUT = 124
    OWN_FAILURE = 125
    DENIED = 126
    NOT_FOUND = 127
    INTERRUPTED = 130
    LIMITED = 137
    PIPE_CLOSED = 141
    TERMINATED = 143


class SuperviseExit(IntEnum):
    """What only `supervise` exits with, besides `Exit`."""

    CONFLICT = 3
    UNKNOWN = 4
    UNVERIFIED = 5


_SIGNAL_BASE = 128
_ENDED_BY_US = {
    EndedBy.TIMED_OUT: Exit.TIMED_OUT,
    EndedBy.IDLE_TIMED_OUT: Exit.TIMED_OUT,
    EndedBy.OUTPUT_LIMITED: Exit.LIMITED,
    EndedBy.MEMORY_LIMITED: Exit.LIMITED,
    EndedBy.PIDS_LIMITED: Exit.LIMITED,
}


def of_signal(number: int) -> int:
    """What shells report for a process that signal `number` ended."""
    return _SIGNAL_BASE + number


def of_result(result: CommandResult) -> int:
    """The status of `run` for a command that ran. Never 0 unless the command said so itself and the policy has no objection."""
    if result.outcome is EndedBy.EXITED and result.exit_code is not None:
        return Exit.DENIED if is_failed_by_policy(result) else result.exit_code
    if result.outcome is EndedBy.SIGNALED and result.signal is not None:
        return of_signal(result.signal)
    return _ENDED_BY_US.get(result.outcome, Exit.OWN_FAILURE)


def is_failed_by_policy(result: CommandResult) -> bool:
    """Whether the command exited with 0 and did what the policy counts as a failure."""
    return result.exit_code == 0 and any(denial.fails for denial in result.denials)


def of_run_failure(error: Exception) -> int:
    """The status of `run` when nothing ran, or nothing is known about what ran."""
    if isinstance(error, Denied):
        return Exit.DENIED
    if isinstance(error, InvalidRequest):
        return Exit.USAGE
    if isinstance(error, LaunchFailed) and error.stage == "exec":
        from fable_exec.lifecycle import status_of_failed_exec  # for those alone: every other `run` does without that room

        return status_of_failed_exec(error.errno or 0)
    return Exit.OWN_FAILURE


def of_failure(error: Exception) -> int:
    """The status of every other command."""
    return Exit.USAGE if isinstance(error, PolicyError | InvalidRequest) else Exit.FAILED


def of_supervise_failure(error: Exception) -> int:
    """The status of `supervise` when an execution could not be started, found, stopped or read."""
    if isinstance(error, Conflict):
        return SuperviseExit.CONFLICT
    if isinstance(error, UnknownExecution):
        return SuperviseExit.UNKNOWN
    if isinstance(error, IdentityLost | SignalRefused | StateUnreadable):
        return SuperviseExit.UNVERIFIED
    return of_failure(error)

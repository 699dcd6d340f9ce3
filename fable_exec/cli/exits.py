"""Exit statuses: from what happened to a number. docs/reference/cli.md has the same table, and a test keeps them equal.

Those of `run` are those that adapters report (`fable_exec.adapters.statuses`); the other commands know 0, 1 and 2.
"""

from __future__ import annotations

from enum import IntEnum

from fable_exec.adapters.statuses import Status, is_failed_by_policy, status_of, status_of_refusal, status_of_signal
from fable_exec.errors import (
    Conflict,
    IdentityLost,
    InvalidRequest,
    PolicyError,
    SignalRefused,
    StateUnreadable,
    UnknownExecution,
)

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
    USAGE = Status.USAGE
    TIMED_OUT = Status.TIMED_OUT
    OWN_FAILURE = Status.OWN_FAILURE
    DENIED = Status.DENIED
    NOT_FOUND = Status.NOT_FOUND
    INTERRUPTED = 130
    LIMITED = Status.LIMITED
    PIPE_CLOSED = 141
    TERMINATED = 143


class SuperviseExit(IntEnum):
    """What only `supervise` exits with, besides `Exit`."""

    CONFLICT = 3
    UNKNOWN = 4
    UNVERIFIED = 5


of_result = status_of
"""The status of `run` for a command that ran."""
of_run_failure = status_of_refusal
"""The status of `run` when nothing ran, or nothing is known about what ran."""
of_signal = status_of_signal
"""The status of a command that signal `number` ended."""


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

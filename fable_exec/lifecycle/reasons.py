"""The one reason why an execution ended: a closed set of words, and the rules by which facts choose among them. Pure."""

from __future__ import annotations

import errno
from collections.abc import Callable
from enum import Enum
from typing import Protocol

import attrs

__all__ = [
    "POLICY_FAILURE_CODES",
    "RULES",
    "SIGNAL_BASE",
    "Deadline",
    "ExitCodeVerdict",
    "Facts",
    "Limit",
    "TerminalReason",
    "Verdict",
    "asks_for_verdict",
    "exit_status",
    "is_restarted",
    "status_of_failed_exec",
    "terminal_reason",
]


POLICY_FAILURE_CODES = frozenset({20})
"""Statuses by which a job says that it worked, and that what it made is not good enough."""

SIGNAL_BASE = 128
"""What shells add to the number of the signal that ended a program (POSIX.1-2024, Shell Command Language 2.8.2)."""

_FAILED, _NOT_EXECUTABLE, _NOT_STARTED, _HIGHEST = 125, 126, 127, 255
_NO_SUCH_FILE = (errno.ENOENT, errno.ENOTDIR)
_HOST_IS_SHORT = (0, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class Deadline(Enum):
    """Which of the two times ran out; the value is the word of the record's field `deadline`."""

    HARD = "hard"
    IDLE = "idle"


class Limit(Enum):
    """What a job had more of than it may."""

    OUTPUT = "output"
    MEMORY = "memory"
    PROCESSES = "processes"
    CPU = "cpu"


class TerminalReason(Enum):
    """Why an execution ended. The value is the word of the record's `termination_reason`."""

    LAUNCH_FAILED = "launch_failed"
    HOST_REBOOTED = "host_rebooted"
    KEEPER_LOST = "keeper_lost"
    DESCENDANTS_TERMINATED = "descendants_terminated"
    DESCENDANTS_UNCONTAINED = "descendants_uncontained"
    DESCENDANT_CHECK_FAILED = "descendant_check_failed"
    STOPPED = "stopped"
    TIMED_OUT = "timed_out"
    OUTPUT_LIMITED = "output_limited"
    MEMORY_LIMITED = "memory_limited"
    PIDS_LIMITED = "pids_limited"
    CPU_LIMITED = "cpu_limited"
    COMPLETED = "completed"
    VERIFICATION_FAILED = "verification_failed"
    CRASHED = "crashed"


@attrs.frozen(kw_only=True)
class Facts:
    """What is known of an execution that matters for its reason.

    Args:
        launch_error: why the job never ran, naming stage and errno; None when it ran.
        exec_errno: the errno of exec(2) when that was why.
        descendants_detected: members outlived a leader that had ended by itself, or outlived everything.
        descendants_quiescent: a proof says that nothing is left.
        descendant_error: why that could not be looked for.
        signal_sent: a signal of ours reached a job that had not ended by itself.
        kill_sent: one of them was SIGKILL.
        stop_signal_sent: it was sent because a stop was requested.
        deadline: the deadline for which it was sent.
        limit: what it had too much of, the first that was noticed.
        end_wanted: a stop, a deadline or a limit was to end it, also where that came too late.
        returncode: the leader's status, negative for a signal; None while it is not known, which is never taken for 0.
        verdict_holds: the verdict's answer; False until it was asked.
        policy_failure_codes: the statuses that count as a verdict of no.
    """

    launch_error: str | None = None
    exec_errno: int | None = None
    host_rebooted: bool = False
    keeper_lost: bool = False
    descendants_detected: bool = False
    descendants_quiescent: bool = False
    descendant_error: str = ""
    signal_sent: bool = False
    kill_sent: bool = False
    stop_signal_sent: bool = False
    deadline: Deadline | None = None
    limit: Limit | None = None
    end_wanted: bool = False
    returncode: int | None = None
    verdict_holds: bool = False
    policy_failure_codes: frozenset[int] = POLICY_FAILURE_CODES

    @property
    def exit_code(self) -> int | None:
        """The status that the leader exited with; None when a signal ended it or nobody knows."""
        return self.returncode if self.returncode is not None and self.returncode >= 0 else None

    @property
    def signal(self) -> int | None:
        """The signal that ended the leader; None when it exited or nobody knows."""
        return -self.returncode if self.returncode is not None and self.returncode < 0 else None


RULES: tuple[tuple[TerminalReason, Callable[[Facts], bool]], ...] = (
    (TerminalReason.LAUNCH_FAILED, lambda facts: facts.launch_error is not None),
    (TerminalReason.HOST_REBOOTED, lambda facts: facts.host_rebooted),
    (TerminalReason.KEEPER_LOST, lambda facts: facts.keeper_lost),
    (TerminalReason.DESCENDANTS_TERMINATED, lambda facts: facts.descendants_detected and facts.descendants_quiescent),
    (TerminalReason.DESCENDANTS_UNCONTAINED, lambda facts: facts.descendants_detected),
    (TerminalReason.DESCENDANT_CHECK_FAILED, lambda facts: bool(facts.descendant_error)),
    (TerminalReason.STOPPED, lambda facts: facts.stop_signal_sent),
    (TerminalReason.TIMED_OUT, lambda facts: facts.deadline is not None),
    (TerminalReason.OUTPUT_LIMITED, lambda facts: facts.limit is Limit.OUTPUT),
    (TerminalReason.MEMORY_LIMITED, lambda facts: facts.limit is Limit.MEMORY),
    (TerminalReason.PIDS_LIMITED, lambda facts: facts.limit is Limit.PROCESSES),
    (TerminalReason.CPU_LIMITED, lambda facts: facts.limit is Limit.CPU),
    (TerminalReason.COMPLETED, lambda facts: facts.returncode == 0 and facts.verdict_holds),
    (TerminalReason.VERIFICATION_FAILED, lambda facts: facts.returncode in {0, *facts.policy_failure_codes}),
    (TerminalReason.CRASHED, lambda facts: True),
)
"""In order; the first that applies is the reason."""


def terminal_reason(facts: Facts) -> TerminalReason:
    """Why an execution with these `facts` ended. Total: every combination has exactly one reason."""
    return next(reason for reason, applies in RULES if applies(facts))


def is_restarted(facts: Facts, attempt: int, most: int) -> bool:
    """Whether a job with these `facts` of its last attempt is started again.

    Only one that crashed by itself is, whose end nobody wanted, and of which a proof says that nothing is left.

    Args:
        attempt: the number of that attempt, from 1.
        most: how often it may be started again.
    """
    crashed = terminal_reason(facts) is TerminalReason.CRASHED and not facts.signal_sent and not facts.end_wanted
    return crashed and facts.descendants_quiescent and attempt <= most


def exit_status(facts: Facts) -> int:
    """The status that a supervisor in the foreground exits with, whatever the reason is called.

    The job's own, or 128 and the signal that ended it, 255 at most; 127 when it never ran, save that exec(2) failed for another
    reason than a missing file: 126, or 125 where the host was short of something; 125 also where nobody was told.
    """
    if facts.launch_error is not None:
        return _NOT_STARTED if facts.exec_errno is None else status_of_failed_exec(facts.exec_errno)
    if facts.signal is not None:
        return min(SIGNAL_BASE + facts.signal, _HIGHEST)
    return _FAILED if facts.exit_code is None else min(facts.exit_code, _HIGHEST)


def status_of_failed_exec(exec_errno: int) -> int:
    """What env(1) exits with for a program that exec(2) answers so about; 125 where the host was short of something."""
    if exec_errno in _NO_SUCH_FILE:
        return _NOT_STARTED
    return _FAILED if exec_errno in _HOST_IS_SHORT else _NOT_EXECUTABLE


class Verdict(Protocol):
    """What tells whether a job that ended by itself with status 0 did what it was for. It may read files; this room does not."""

    def holds(self) -> bool:
        """Asked at most once, when nothing of the job is left."""


@attrs.frozen
class ExitCodeVerdict:
    """The verdict of jobs that bring no proof: status 0 is enough."""

    def holds(self) -> bool:
        return True


def asks_for_verdict(facts: Facts) -> bool:
    """Whether the reason depends on the verdict. Elsewhere it is not asked: what strangers may still write to is no evidence."""
    asked, not_asked = (terminal_reason(attrs.evolve(facts, verdict_holds=holds)) for holds in (True, False))
    return asked is not not_asked

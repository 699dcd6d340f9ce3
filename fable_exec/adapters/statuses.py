"""The one mapping from what became of a command to the exit status that shells, frameworks and `fable-exec run` know.

Data and pure functions; docs/reference/adapters.md has the same table, and a test keeps them equal. Statuses follow timeout(1),
env(1) and the shells. It starts nothing and knows no framework.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType

import attrs

from fable_exec.errors import Denied, FableExecError, InvalidRequest, LaunchFailed
from fable_exec.outcome import EndedBy
from fable_exec.protocol import CommandResult

__all__ = [
    "STATUS_OF_REASON",
    "Completed",
    "Status",
    "completed",
    "is_failed_by_policy",
    "refused",
    "status_of",
    "status_of_refusal",
    "status_of_signal",
]


class Status(IntEnum):
    """The statuses that are ours, not the command's."""

    USAGE = 2
    TIMED_OUT = 124
    OWN_FAILURE = 125
    DENIED = 126
    NOT_FOUND = 127
    LIMITED = 137


STATUS_OF_REASON: Mapping[EndedBy, Status | None] = MappingProxyType(
    {
        EndedBy.EXITED: None,
        EndedBy.SIGNALED: None,
        EndedBy.TIMED_OUT: Status.TIMED_OUT,
        EndedBy.IDLE_TIMED_OUT: Status.TIMED_OUT,
        EndedBy.OUTPUT_LIMITED: Status.LIMITED,
        EndedBy.MEMORY_LIMITED: Status.LIMITED,
        EndedBy.PIDS_LIMITED: Status.LIMITED,
        EndedBy.CANCELLED: Status.OWN_FAILURE,
        EndedBy.BROKER_LOST: Status.OWN_FAILURE,
    }
)
"""None: the kernel's status of the leader says it, n for an exit and `status_of_signal(n)` for a signal."""


def status_of(result: CommandResult) -> int:
    """The status of a command that ran. Never 0 unless the command said so itself and the policy has no objection."""
    ours = STATUS_OF_REASON[result.outcome]
    if ours is not None:
        return ours
    if result.outcome is EndedBy.SIGNALED:
        return Status.OWN_FAILURE if result.signal is None else status_of_signal(result.signal)
    if result.exit_code is None:
        return Status.OWN_FAILURE
    return Status.DENIED if is_failed_by_policy(result) else result.exit_code


def status_of_signal(number: int) -> int:
    """What shells report for a process that signal `number` ended."""
    from fable_exec.lifecycle import SIGNAL_BASE  # for those alone: every other command does without that room

    return SIGNAL_BASE + number


def is_failed_by_policy(result: CommandResult) -> bool:
    """Whether the command exited with 0 and did what the policy counts as a failure."""
    return result.exit_code == 0 and any(denial.fails for denial in result.denials)


def status_of_refusal(error: BaseException) -> int:
    """The status where nothing ran, or nothing is known about what ran."""
    if isinstance(error, Denied):
        return Status.DENIED
    if isinstance(error, InvalidRequest):
        return Status.USAGE
    if isinstance(error, LaunchFailed) and error.stage == "exec":
        from fable_exec.lifecycle import status_of_failed_exec  # for those alone, too

        return status_of_failed_exec(error.errno or 0)
    return Status.OWN_FAILURE


@attrs.frozen(kw_only=True)
class Completed:
    """A command as frameworks know it that have a status and two streams, and nothing else.

    `reason` is the word of `EndedBy`, or the `code` of a refusal. `result` is the whole answer, None when nothing ran; then
    `refusal` says why, and `stderr` is its message.
    """

    status: int
    stdout: bytes
    stderr: bytes
    truncated: bool
    timed_out: bool
    reason: str
    result: CommandResult | None = None
    refusal: FableExecError | None = None

    @property
    def stdout_text(self) -> str:
        """Standard output as text; where output was left out a line says how many bytes."""
        return "" if self.result is None else self.result.stdout

    @property
    def stderr_text(self) -> str:
        """Standard error as text, the same way; for a refusal its message."""
        return f"{self.refusal}\n" if self.result is None else self.result.stderr


def completed(result: CommandResult) -> Completed:
    """What such a framework is told of a command that ran."""
    return Completed(
        status=status_of(result),
        stdout=result.stdout_raw,
        stderr=result.stderr_raw,
        truncated=result.output_limited,
        timed_out=result.timed_out,
        reason=result.outcome.value,
        result=result,
    )


def refused(error: FableExecError) -> Completed:
    """What such a framework is told of one that did not run."""
    return Completed(
        status=status_of_refusal(error),
        stdout=b"",
        stderr=f"{error}\n".encode("utf-8", "replace"),
        truncated=False,
        timed_out=False,
        reason=error.code,
        refusal=error,
    )

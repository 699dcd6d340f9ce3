"""What can happen to an execution, each a frozen value in the past tense. Pure: who noticed it, and how, is not told here."""

from __future__ import annotations

from typing import get_args

import attrs

from fable_exec.lifecycle.reasons import POLICY_FAILURE_CODES, Deadline, Facts, Limit, Verdict, asks_for_verdict

__all__ = [
    "EVENTS",
    "Accepted",
    "DeadlinePassed",
    "DescendantsReconciled",
    "Event",
    "HostRebooted",
    "Judged",
    "KeeperLost",
    "LaunchFailed",
    "LeaderExited",
    "LimitExceeded",
    "RestartDecided",
    "SignalSent",
    "Started",
    "StopRequested",
    "WaitElapsed",
    "judged",
]


@attrs.frozen
class Accepted:
    """A start was decided for under the lock; nothing of this execution exists yet. The codes are those of its verdict."""

    policy_failure_codes: frozenset[int] = POLICY_FAILURE_CODES


@attrs.frozen
class Started:
    """The job's process was made and waits at the gate; who it is is known."""


@attrs.frozen
class LaunchFailed:
    """The job never ran: something failed before the gate opened, or exec(2) failed behind it.

    Args:
        error: names stage and errno.
        exec_errno: why exec(2) failed; None when something else did.
    """

    error: str
    exec_errno: int | None = None


@attrs.frozen
class StopRequested:
    """Somebody asked for the end of the job."""


@attrs.frozen
class DeadlinePassed:
    """The job had its time, or was silent for too long."""

    deadline: Deadline


@attrs.frozen
class LimitExceeded:
    """The job has more of something than it may; also where the kernel noticed it and has killed already.

    Args:
        by_signal: a signal for it has ended the leader, so that what the leader left was not left by itself.
    """

    limit: Limit
    by_signal: bool = False


@attrs.frozen
class SignalSent:
    """The signal of the last TERMINATE or KILL was delivered to a leader that had not ended by itself.

    One look at the world can find a stop and an end; so this may be told after the LeaderExited that it led to.
    """

    kill: bool = False


@attrs.frozen
class WaitElapsed:
    """The time that the last BEGIN_GRACE, BEGIN_KILL_WAIT or BEGIN_RESTART_DELAY began is over."""


@attrs.frozen
class LeaderExited:
    """The leader was reaped. `returncode` is negative for a signal, and None where nobody was told it: no number is invented."""

    returncode: int | None


@attrs.frozen(kw_only=True)
class DescendantsReconciled:
    """What the leader left was looked for, ended, and looked for again.

    Args:
        found: a member other than the leader was alive when the leader was gone, or the leader itself could not be ended.
        remaining: a member is alive still.
        quiescent: a proof, not a scan, says that nothing of the job is left.
        error: why it could not be looked for; empty when it could.

    Raises:
        ValueError: the four contradict each other.
    """

    found: bool = False
    remaining: bool = False
    quiescent: bool
    error: str = ""

    def __attrs_post_init__(self) -> None:
        if self.remaining and not self.found:
            raise ValueError("what remains was found")
        if self.quiescent and (self.remaining or self.error):
            raise ValueError("quiescent says that nothing remains and that nothing failed")


@attrs.frozen
class Judged:
    """The verdict was given: did the job that ended by itself with status 0 do what it was for?"""

    holds: bool


@attrs.frozen
class RestartDecided:
    """Instead of a verdict: by `is_restarted` the job is to be started again, and the workspace was swept."""


@attrs.frozen
class KeeperLost:
    """The keeper has died, and nothing of what it kept runs any more. Only `recover` finds this out."""


@attrs.frozen
class HostRebooted:
    """The machine was started anew since, and everything went with it. Only `recover` finds this out."""


Event = (
    Accepted
    | Started
    | LaunchFailed
    | StopRequested
    | DeadlinePassed
    | LimitExceeded
    | SignalSent
    | WaitElapsed
    | LeaderExited
    | DescendantsReconciled
    | Judged
    | RestartDecided
    | KeeperLost
    | HostRebooted
)

EVENTS: tuple[type[Event], ...] = get_args(Event)
"""Every kind of event."""


def judged(facts: Facts, verdict: Verdict) -> Judged:
    """The event that follows JUDGE: the verdict's answer, or no without asking where no answer could matter."""
    return Judged(holds=asks_for_verdict(facts) and verdict.holds())

"""The three words that an execution's state file knows, and the finer phases that its keeper walks through. Pure."""

from __future__ import annotations

from enum import Enum

__all__ = ["Phase", "State"]


class State(Enum):
    """What state.json says of an execution: the value is the word in it. EXITED is final."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    EXITED = "exited"


class Phase(Enum):
    """Where an execution is. Only its `state` is durable: nobody resumes within it, since a dying keeper takes the job along."""

    ACCEPTED = "accepted"
    """The request is on the disk; nothing runs yet."""
    RUNNING = "running"
    """The job may run."""
    ENDING = "ending"
    """It was asked to end (SIGTERM), and has a grace."""
    KILLING = "killing"
    """The grace is over: everything gets SIGKILL, and the leader is waited for, within a bound."""
    RECONCILING = "reconciling"
    """The leader is gone; what it left is ended, and its emptiness proved."""
    JUDGING = "judging"
    """Nothing of the job is left; the verdict is asked whether the work was done."""
    RESTARTING = "restarting"
    """The job crashed, nothing of it is left, and it is to be started again after a pause."""
    EXITED = "exited"
    """The outcome is fixed. Final."""

    @property
    def state(self) -> State:
        """The word for it in state.json, which knows no phases."""
        if self is Phase.ACCEPTED:
            return State.ACCEPTED
        return State.EXITED if self is Phase.EXITED else State.RUNNING

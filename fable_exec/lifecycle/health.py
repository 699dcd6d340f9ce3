"""How an execution fares, from what a reader found: its state, its keeper, its job. Pure.

The order of the looks matters as much as the rule: `health_by_looking` has it, and does the looks that it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from fable_exec.lifecycle.states import State

__all__ = ["Health", "Liveness", "health", "health_by_looking"]


class Liveness(Enum):
    """What is known of a process. What cannot be told is neither alive nor dead."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


class Health(Enum):
    """The value is the word for people and on the wire."""

    EXITED = "exited"
    RUNNING = "running"
    STARTING = "starting"
    ORPHANED = "orphaned"
    """The keeper is dead, and the job is not known to be."""
    LOST = "lost"
    """Keeper and job are dead and no outcome was recorded; `recover` will."""


def health(state: State, keeper: Liveness, job: Liveness) -> Health:
    """How an execution fares.

    Args:
        state: what its record says, the same before and after the other two were looked at.
        keeper: ALIVE while somebody holds the lock of the keeper's life.
        job: the recorded leader; in the state `accepted` no job exists and it is not looked at.
    """
    if state is State.EXITED:
        return Health.EXITED
    if keeper is not Liveness.DEAD:
        return Health.STARTING if state is State.ACCEPTED else Health.RUNNING
    return Health.LOST if state is State.ACCEPTED or job is Liveness.DEAD else Health.ORPHANED


def health_by_looking(state: Callable[[], State], keeper: Callable[[], Liveness], job: Callable[[], Liveness]) -> Health:
    """How an execution fares that goes on meanwhile.

    The state is looked at before and after the other two, and they again when it has changed: else a healthy execution that is
    seen between two of its writes would look lost. A state changes twice at most, so this ends.

    Args:
        state, keeper, job: look at what `health` needs, each time anew; the job is the leader that the last state named. What a
            look raises comes through.
    """
    before = state()
    while True:
        seen = keeper(), job()
        after = state()
        if after is before:
            return health(after, *seen)
        before = after

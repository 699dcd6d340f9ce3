"""The attempts, by what they go for."""

from __future__ import annotations

from benchmarks.escapes.attempt import Attempt
from benchmarks.escapes.groups import files, kernel, later, launching, locked, network, processes

__all__ = ["all_attempts"]


def all_attempts() -> tuple[Attempt, ...]:
    """Every attempt, group by group."""
    return tuple(
        each for room in (files, processes, network, kernel, later, locked, launching) for each in room.ATTEMPTS.attempts.values()
    )

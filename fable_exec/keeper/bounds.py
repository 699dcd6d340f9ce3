"""How long a job may take and be silent, how much it may write, and how often its keeper leaves a sign of life. Pure.

Two heed it, one after the other: the keeper that only waits for a job (waiting), and the course of its execution (course).
"""

from __future__ import annotations

import math

import attrs

__all__ = ["Bounds"]


@attrs.frozen(kw_only=True)
class Bounds:
    """Of one execution; None is no bound. Moments are of the clock that the caller's are of, and infinite for none."""

    hard_timeout_seconds: float | None
    idle_timeout_seconds: float | None
    max_output_bytes: int | None
    heartbeat_seconds: float

    def hard_at(self, opened_at: float) -> float:
        """When a job whose gate was opened then has had its time."""
        return math.inf if self.hard_timeout_seconds is None else opened_at + self.hard_timeout_seconds

    def idle_at(self, said_at: float) -> float:
        """When a job that was heard of then last has been silent for too long."""
        return math.inf if self.idle_timeout_seconds is None else said_at + self.idle_timeout_seconds

    def are_exceeded_by(self, written_bytes: int) -> bool:
        """Whether so much is more than it may write."""
        return self.max_output_bytes is not None and written_bytes > self.max_output_bytes

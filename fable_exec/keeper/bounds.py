"""How long a job may take and be silent, how much it may write, and how often its keeper leaves a sign of life.

Two wait for a job, one after the other: its keeper with little memory (waiting), and the course of its execution (course).
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from fable_exec.keeper.timers import Timers

__all__ = ["Bounds"]


@attrs.frozen(kw_only=True)
class Bounds:
    """Of one execution; None is no bound. Moments are of the monotonic clock."""

    hard_timeout_seconds: float | None
    idle_timeout_seconds: float | None
    max_output_bytes: int | None
    heartbeat_seconds: float

    def time_job(self, timers: Timers, opened_at: float, act: Callable[[], object]) -> None:
        """Do `act` once a job whose gate was opened then has had its time."""
        if self.hard_timeout_seconds is not None:
            timers.set_at("hard", opened_at + self.hard_timeout_seconds, act)

    def time_silence(self, timers: Timers, said_at: float, act: Callable[[], object]) -> None:
        """Do `act` once a job that was heard of then last has been silent for too long."""
        if self.idle_timeout_seconds is not None:
            timers.set_at("idle", said_at + self.idle_timeout_seconds, act)

    def time_sign_of_life(self, timers: Timers, act: Callable[[], object]) -> None:
        """Do `act` when the next one is due."""
        timers.set("heartbeat", self.heartbeat_seconds, act)

    def are_exceeded_by(self, written_bytes: int) -> bool:
        """Whether so much is more than it may write."""
        return self.max_output_bytes is not None and written_bytes > self.max_output_bytes

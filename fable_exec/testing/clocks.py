"""A clock that only moves when it is told to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ["FakeClock"]


class FakeClock:
    """What takes a clock in this library takes one of these: `ExecutionBroker(policy, clock=clock)`, `AuditLog(clock=clock.utc)`.

    Deadlines of commands are not its business: a command takes the time that it takes.

    Args:
        seconds: what it shows first, on a scale of its own.
        utc: the moment of the calendar that this is.
    """

    def __init__(self, seconds: float = 1000.0, *, utc: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._began = self._seconds = seconds
        self._utc = utc

    def __call__(self) -> float:
        """What it shows, in seconds."""
        return self._seconds

    def advance(self, seconds: float) -> float:
        """Let time pass; returns what it shows then. Raises ValueError for less than 0: this clock is never set back."""
        if not seconds >= 0:
            raise ValueError(f"time passes forwards, not by {seconds!r} s")
        self._seconds += seconds
        return self._seconds

    def utc(self) -> datetime:
        """The same moment as one of the calendar."""
        return self._utc + timedelta(seconds=self._seconds - self._began)

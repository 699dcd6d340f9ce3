"""Moments as the records of an execution have them: in UTC, as ISO 8601 with microseconds and a Z."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["now", "written"]


def now() -> str:
    """This moment."""
    return _written(datetime.now(UTC))


def written(seconds: float) -> str:
    """A moment in seconds since the epoch."""
    return _written(datetime.fromtimestamp(seconds, UTC))


def _written(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"

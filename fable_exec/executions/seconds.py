"""Which numbers of seconds can be meant by whoever bounds a job or a command. Pure."""

from __future__ import annotations

from typing import Any

from fable_exec.errors import InvalidRequest

__all__ = ["MAX_SECONDS", "require_seconds"]

MAX_SECONDS = 366 * 86400.0
"""Longer is a slip of the keyboard."""


def require_seconds(name: str, value: Any, *, above_zero: bool) -> None:
    """Raise InvalidRequest unless `value` is a finite number from 0, or above it, to MAX_SECONDS."""
    # The type exactly, since True is no number; and compared so that NaN is refused.
    is_number = type(value) in (int, float) and value <= MAX_SECONDS
    if not is_number or not (value > 0 if above_zero else value >= 0):
        least = "above 0" if above_zero else "0 or more"
        raise InvalidRequest(f"{name} must be a number of seconds, {least} and at most {MAX_SECONDS:.0f}, not {value!a:.80}")

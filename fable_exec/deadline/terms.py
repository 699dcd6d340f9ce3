"""How long a command may take. Pure: it only says which numbers can be meant."""

from __future__ import annotations

import attrs

from fable_exec.errors import InvalidRequest

__all__ = ["MAX_SECONDS", "Terms"]

MAX_SECONDS = 366 * 24 * 3600.0
"""Longer is a slip of the keyboard."""


@attrs.frozen
class Terms:
    """The bounds of one command, in seconds.

    Args:
        hard: from the start to the first signal, and to the end of the delivery of its output; above 0.
        grace: from the first signal to SIGKILL; 0 kills at once.
        idle: without output; above 0. None: it may be silent.

    Raises:
        InvalidRequest: a value is no number, not finite, out of range, or above MAX_SECONDS.
    """

    hard: float
    grace: float
    idle: float | None = None

    def __attrs_post_init__(self) -> None:
        _require("hard", self.hard, above_zero=True)
        _require("grace", self.grace, above_zero=False)
        if self.idle is not None:
            _require("idle", self.idle, above_zero=True)


def _require(name: str, seconds: float, *, above_zero: bool) -> None:
    if type(seconds) not in (int, float):  # exactly: True is no number
        raise InvalidRequest(f"{name} must be a number of seconds")
    is_enough = seconds > 0 if above_zero else seconds >= 0
    if not (is_enough and seconds <= MAX_SECONDS):  # so written that it refuses NaN
        raise InvalidRequest(f"{name} must be {'above 0' if above_zero else '0 or more'}, and at most {MAX_SECONDS:.0f} seconds")

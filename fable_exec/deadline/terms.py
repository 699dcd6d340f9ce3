"""How long a command may take. Pure: it only says which numbers can be meant."""

from __future__ import annotations

import attrs

from fable_exec.executions.seconds import MAX_SECONDS, require_seconds

__all__ = ["MAX_SECONDS", "Terms"]


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
        require_seconds("hard", self.hard, above_zero=True)
        require_seconds("grace", self.grace, above_zero=False)
        if self.idle is not None:
            require_seconds("idle", self.idle, above_zero=True)

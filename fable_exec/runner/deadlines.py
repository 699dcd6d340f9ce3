"""When a command's conversation has to act next, and why. It knows the clock and nothing else of the world."""

from __future__ import annotations

import time

from fable_exec.outcome import EndedBy

IDLE_DRAIN_SECONDS = 0.05
TOTAL_DRAIN_SECONDS = 0.3
"""After the leader's exit, while others hold its streams: how long silence, and how long all of it may last."""
END_SECONDS = 0.25
"""How long the launcher may take to prove the tree gone before the call returns without the proof."""


class Deadlines:
    """First the command's own, after its leader's exit the bounds of the drain, and once its end was asked for that of the proof.

    All times are of time.monotonic.
    """

    def __init__(self, timeout_seconds: float, idle_timeout_seconds: float | None) -> None:
        self.started_at = self._heard_at = time.monotonic()
        self._deadline = self.started_at + timeout_seconds
        self._idle = idle_timeout_seconds
        self._exited_at: float | None = None
        self._give_up_at: float | None = None

    @property
    def leader_has_exited(self) -> bool:
        """Whether only the drain is left."""
        return self._exited_at is not None

    @property
    def end_was_asked_for(self) -> bool:
        """Whether the end was asked for."""
        return self._give_up_at is not None

    def hear(self) -> None:
        """Output has come."""
        self._heard_at = time.monotonic()

    def note_exit(self) -> None:
        """The leader has exited."""
        self._exited_at = self._heard_at = time.monotonic()

    def note_end(self) -> None:
        """The end was asked for."""
        self._give_up_at = time.monotonic() + END_SECONDS

    def due_at(self) -> float:
        """When something has to be done."""
        if self._give_up_at is not None:
            return self._give_up_at
        if self._exited_at is not None:
            return min(self._heard_at + IDLE_DRAIN_SECONDS, self._exited_at + TOTAL_DRAIN_SECONDS)
        return self._deadline if self._idle is None else min(self._deadline, self._heard_at + self._idle)

    def reason(self, now: float) -> EndedBy | None:
        """What the end is to be asked for with, when it is due; None when the leader has exited by itself."""
        if self._exited_at is not None:
            return None
        return EndedBy.TIMED_OUT if now >= self._deadline else EndedBy.IDLE_TIMED_OUT

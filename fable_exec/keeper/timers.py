"""Named moments at which something is to be done: set anew, cleared, and run when they have come."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Timers"]


class Timers:
    """At most one moment of each name."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: dict[str, tuple[float, Callable[[], object]]] = {}

    def set(self, name: str, seconds: float, act: Callable[[], object]) -> None:
        """Do `act` in so many seconds, instead of what that name stood for."""
        self.set_at(name, self._clock() + seconds, act)

    def set_at(self, name: str, moment: float, act: Callable[[], object]) -> None:
        """The same at a moment of the clock, which may have passed."""
        self._due[name] = (moment, act)

    def clear(self, name: str) -> None:
        """Forget that name."""
        self._due.pop(name, None)

    def milliseconds(self) -> int | None:
        """Until the next moment, never short of it; None when there is none."""
        if not self._due:
            return None
        return max(0, int((min(due for due, _ in self._due.values()) - self._clock()) * 1000) + 1)

    def run(self) -> None:
        """Do what is due, each once."""
        now = self._clock()
        for name, (due, act) in list(self._due.items()):
            if due <= now and self._due.get(name) == (due, act):
                del self._due[name]
                act()

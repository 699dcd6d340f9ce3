"""How much the observer looks at for one call. All others wait meanwhile, and a command chooses what there is to see."""

from __future__ import annotations

import time

_WORK_SECONDS = 0.02
"""Of processor time: on a machine that is merely busy nothing is left unsaid."""
_SECONDS = 0.25
"""By the clock, for disks that take their time."""


class OverBudget(Exception):
    """More would have to be looked at than one call is worth: nothing is told of it, and it is counted."""


class Budget:
    """What is left for the call in hand. `begin` with each call; `check` between steps, each of which is bounded by itself."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """All of it is there again."""
        began = time.monotonic()
        self._unlikely_until, self._give_up_at = began + _WORK_SECONDS, began + _SECONDS
        self._worked = time.thread_time()

    def check(self) -> None:
        """Raise OverBudget when nothing is left."""
        now = time.monotonic()
        if now > self._unlikely_until and (now > self._give_up_at or time.thread_time() > self._worked + _WORK_SECONDS):
            raise OverBudget

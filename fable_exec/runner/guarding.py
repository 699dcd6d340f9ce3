"""What may happen around each command of a runner, besides running it."""

from __future__ import annotations

from typing import Protocol

from fable_exec.outcome import Denial
from fable_exec.runner.command import NO_PINS, Pins


class Guard(Protocol):
    """Called around every command: `before` when it is about to be sent, `after` once when it is over, also when it never ran."""

    def before(self) -> Pins:
        """What the command that is about to be sent must not change."""

    def after(self, pinned: bool) -> tuple[Denial, ...]:
        """What was found out about it, for its outcome. The tree has ended, unless it could not be ended in time.

        Args:
            pinned: whether all that it must not change was kept from it.
        """


class NoGuard:
    """Nothing happens around a command."""

    def before(self) -> Pins:
        return NO_PINS

    def after(self, pinned: bool) -> tuple[Denial, ...]:
        return ()

"""Started commands whose handle nobody has any more: told to end at once, followed to their end as soon as that is safe.

The garbage collector calls `drop` in any thread, in the midst of anything. To follow a command takes locks, and where this very
thread holds one it may be in the midst of what that guards: the next request does it then. What a command planted is looked for
when it has ended, never earlier: what it would plant afterwards would pass for the host's.
"""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

from fable_exec._sys.forks import holds_any
from fable_exec.broker.commands import CommandWork, Prepared
from fable_exec.runner import AsyncRunningCommand, RunningCommand

if TYPE_CHECKING:
    import asyncio  # loaded when a loop is there

__all__ = ["Dropped", "Started"]

_FOLLOW_SECONDS = 0.3
"""How long the thread that drops a handle may be held up; a tree that is told to end takes some milliseconds."""
_AGAIN_SECONDS = 0.005


_R = TypeVar("_R", RunningCommand, AsyncRunningCommand, covariant=True)


@attrs.frozen(eq=False)
class Started(Generic[_R]):
    """A command that was started, and all that it takes to see it to its end without its handle."""

    running: _R
    prepared: Prepared
    work: CommandWork
    loop: asyncio.AbstractEventLoop | None = None
    """The one that its handle belongs to; None for a blocking one."""

    def finish(self, seconds: float) -> bool:
        """Wait so long for its end, and write that down; whether it is over. In a forked child the copies here are released."""
        running: RunningCommand | AsyncRunningCommand = self.running
        if running.inherited:
            running.abandon()
            return True
        try:
            with self.work.launching(self.prepared):
                outcome = running.wait(seconds) if isinstance(running, RunningCommand) else running.wait_without_loop(seconds)
        except Exception as error:  # nobody is left to be told, and whoever happens to come here is not concerned
            running.abandon()
            self.prepared.operation.failed(error)
            return True
        if outcome is None:
            return False
        self.work.report(self.prepared, outcome)
        return True


class Dropped:
    """Thread-safe without a lock: whoever takes a command out of the queue has it alone.

    Args:
        on_end: called for each when it is over and everything is released.
    """

    def __init__(self, on_end: Callable[[Started[Any]], None]) -> None:
        self._on_end = on_end
        self._waiting: deque[Started[Any]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def drop(self, started: Started[Any]) -> None:
        """Nobody has the handle of a command that was not followed to its end: end it, and warn as Python does of a file."""
        self._waiting.append(started)
        if started.running.inherited:
            self.finish()
            return
        started.running.cancel()
        try:
            warnings.warn(f"unclosed command {started.prepared.command.executable.name!r}", ResourceWarning, stacklevel=3)
        finally:
            if started.loop is not None and started.loop.is_running():
                started.loop.call_soon_threadsafe(self._finish_in, started.loop)
            elif not holds_any():
                self.finish(_FOLLOW_SECONDS)

    def finish(self, seconds: float = 0.0) -> None:
        """Take those out that are over, waiting so long for all of them together."""
        give_up_at = time.monotonic() + seconds
        for _ in range(len(self._waiting)):
            try:
                started = self._waiting.popleft()
            except IndexError:
                return  # another thread took it
            over = False
            try:
                over = started.finish(max(0.0, give_up_at - time.monotonic()))
            finally:
                if over:
                    self._on_end(started)
                else:
                    self._waiting.append(started)

    def _finish_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """In the loop's thread, which is not held up: the end takes some milliseconds, and is bounded by the launcher."""
        self.finish()
        if self._waiting:
            loop.call_later(_AGAIN_SECONDS, self._finish_in, loop)

"""Follow one command to its end: its events as a workspace tells them, and a cancellation that ends the command first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from fable_exec.adapters.values import CommandDenial, CommandFinished, CommandOutput, CommandStarted, WorkspaceEvent
from fable_exec.protocol import CommandResult, Event, Output, Started

__all__ = ["OnWorkspaceEvent", "WorkspaceListener", "done_first", "end_and_wait", "to_its_end"]

OnWorkspaceEvent = Callable[[WorkspaceEvent], object]
_T = TypeVar("_T")


class WorkspaceListener:
    """Turns a broker's events into those of a workspace, and counts where in its stream a piece of output stands."""

    def __init__(self, on_event: OnWorkspaceEvent) -> None:
        self._on_event = on_event
        self._offsets = {"stdout": 0, "stderr": 0}

    async def hear(self, event: Event) -> None:
        """Tell of one event; an awaitable that the listener gives is awaited before the next one is."""
        if isinstance(event, Started):
            await self._tell(CommandStarted())
        elif isinstance(event, Output):
            offset = self._offsets[event.stream]
            self._offsets[event.stream] += len(event.data)
            await self._tell(CommandOutput(event.stream, event.data, offset))

    async def finish(self, result: CommandResult) -> None:
        """Tell what was refused, and that the command has finished."""
        for denial in result.denials:
            await self._tell(CommandDenial(denial))
        await self._tell(CommandFinished(result))

    async def _tell(self, event: WorkspaceEvent) -> None:
        told = self._on_event(event)
        if isinstance(told, Awaitable):
            await told


async def to_its_end(work: Coroutine[Any, Any, _T]) -> _T:
    """Await `work` as a task of its own. Scopes of anyio cancel again at every await, also at those that clean up; they do not
    reach it, and it is waited for until its command has ended."""
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await end_and_wait(running)
        raise


async def done_first(work: Coroutine[Any, Any, _T] | asyncio.Future[_T]) -> _T:
    """Await `work`, which nothing stops: a cancellation waits until it is done, and goes on then."""
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await _wait_out(running)
        raise


async def end_and_wait(running: asyncio.Future[Any]) -> None:
    """End a command's task and wait for its end, also while we are being cancelled ourselves."""
    running.cancel()
    await _wait_out(running)


async def _wait_out(running: asyncio.Future[Any]) -> None:
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError as error:
            cancelled = error
    if not running.cancelled():
        running.exception()  # told already, or of nobody's interest any more
    if cancelled is not None:
        raise cancelled

"""The two loops that drive an exchange: one that blocks the calling thread, one inside asyncio. Neither decides anything."""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable

from .exchange import Exchange

_MILLISECONDS = 1000


class PollWatcher:
    """A watcher over poll(2), for one thread at a time."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[], object]] = {}

    def watch(self, descriptor: int, handler: Callable[[], object], *, writable: bool = False) -> None:
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, select.POLLOUT if writable else select.POLLIN)

    def unwatch(self, descriptor: int) -> None:
        if self._handlers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def step(self, until: float) -> None:
        """Wait until something is ready or `until` has come, and call the handlers."""
        wait = max(0.0, until - time.monotonic())
        for descriptor, _ in self._poll.poll(int(wait * _MILLISECONDS) + 1):
            handler = self._handlers.get(descriptor)
            if handler is not None:
                handler()


def drive(exchange: Exchange, watcher: PollWatcher) -> None:
    """Run `exchange` to its end in this thread. If interrupted, the tree is ended before the exception goes on."""
    try:
        while not exchange.done:
            watcher.step(exchange.due_at())
            exchange.tick()
    except BaseException:
        exchange.abandon()
        raise


class LoopWatcher:
    """A watcher over a running asyncio loop; `changed` is set after every handler."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._watched: dict[int, tuple[Callable[[], object], bool]] = {}
        self._attached = True
        self.changed = asyncio.Event()

    def watch(self, descriptor: int, handler: Callable[[], object], *, writable: bool = False) -> None:
        self._watched[descriptor] = handler, writable
        if self._attached:
            self._attach(descriptor)

    def unwatch(self, descriptor: int) -> None:
        if self._watched.pop(descriptor, None) is not None:
            self._detach(descriptor)

    def pause(self) -> None:
        """Stop calling handlers: the command's pipes fill and it waits for its reader."""
        self._attached = False
        for descriptor in self._watched:
            self._detach(descriptor)

    def resume(self) -> None:
        """Call handlers again."""
        self._attached = True
        for descriptor in self._watched:
            self._attach(descriptor)

    async def step(self, until: float) -> None:
        """Wait until a handler ran or `until` has come."""
        timer = self._loop.call_later(max(0.0, until - time.monotonic()), self.changed.set)
        try:
            await self.changed.wait()
            self.changed.clear()
        finally:
            timer.cancel()

    def _attach(self, descriptor: int) -> None:
        handler, writable = self._watched[descriptor]
        register = self._loop.add_writer if writable else self._loop.add_reader
        register(descriptor, self._call, handler)

    def _detach(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)
        self._loop.remove_writer(descriptor)

    def _call(self, handler: Callable[[], object]) -> None:
        handler()
        self.changed.set()


async def drive_in_loop(exchange: Exchange, watcher: LoopWatcher) -> None:
    """Run `exchange` to its end in the running loop.

    When the task is cancelled the tree is ended first, END_SECONDS at most, and only then does the cancellation go on.
    """
    try:
        while not exchange.done:
            await watcher.step(exchange.due_at())
            exchange.tick()
    except BaseException as interruption:
        await _end_first(exchange, watcher, interruption)
        raise


async def _end_first(exchange: Exchange, watcher: LoopWatcher, interruption: BaseException) -> None:
    from ..outcome import EndedBy

    if isinstance(interruption, asyncio.CancelledError):
        exchange.request_end(EndedBy.CANCELLED)
        while not exchange.done:
            try:
                await watcher.step(exchange.due_at())
            except asyncio.CancelledError:
                continue
            exchange.tick()
    exchange.abandon()

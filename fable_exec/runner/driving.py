"""The two loops that drive an exchange: one that blocks the calling thread, one inside asyncio. Neither decides anything."""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from fable_exec._launcher.readiness import Readiness
from fable_exec.outcome import EndedBy
from fable_exec.runner.exchange import Exchange

if TYPE_CHECKING:
    import asyncio  # loaded when a loop is there: a host without one should not wait for it

_MILLISECONDS = 1000


class PollWatcher(Readiness):
    """A watcher over poll(2), for one thread at a time."""

    def step(self, until: float) -> None:
        """Wait until something is ready or `until` has come, and call the handlers."""
        self.round(int((until - time.monotonic()) * _MILLISECONDS) + 1)


def drive(exchange: Exchange, watcher: PollWatcher) -> None:
    """Run `exchange` to its end in this thread.

    When interrupted (KeyboardInterrupt), the tree is ended first, END_SECONDS at most, and then the exception goes on.
    """
    try:
        _drive(exchange, watcher)
    except BaseException:
        try:
            exchange.request_end(EndedBy.CANCELLED)
            _drive(exchange, watcher)
        finally:
            exchange.abandon()
        raise


def _drive(exchange: Exchange, watcher: PollWatcher) -> None:
    while not exchange.done:
        watcher.step(exchange.due_at())
        exchange.tick()


class LoopWatcher:
    """A watcher over a running asyncio loop; who listens takes part in it with `with watcher:`.

    While nobody listens no handler is called: the command's pipes fill and it waits for its reader.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        import asyncio

        self._loop = loop
        self._owner = os.getpid()
        self._watched: dict[int, tuple[Callable[[], object], bool]] = {}
        self._listeners = 0
        self._changed = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._failure: BaseException | None = None

    def watch(self, descriptor: int, handler: Callable[[], object], *, writable: bool = False) -> None:
        self._watched[descriptor] = handler, writable
        if self._listeners:
            self._attach(descriptor)

    def unwatch(self, descriptor: int) -> None:
        if descriptor in self._watched:
            if self._listeners:
                self._detach(descriptor)
            del self._watched[descriptor]

    def __enter__(self) -> None:
        self._listeners += 1
        if self._listeners == 1:
            for descriptor in self._watched:
                self._attach(descriptor)

    def __exit__(self, *_: object) -> None:
        self._listeners -= 1
        if self._listeners == 0:
            self._silence()
            for descriptor in self._watched:
                self._detach(descriptor)

    async def step(self, until: float) -> None:
        """Wait until a handler ran or `until` has come, or somewhat less. What a handler raised comes out here."""
        self._wake_at(until)
        await self._changed.wait()
        self._changed.clear()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def look(self, until: float) -> None:
        """The same without the loop, in the calling thread; only while nobody listens."""
        waiting = select.poll()
        watched = dict(self._watched)
        for descriptor, (_, writable) in watched.items():
            waiting.register(descriptor, select.POLLOUT if writable else select.POLLIN)
        for descriptor, _ in waiting.poll(max(0, math.ceil((until - time.monotonic()) * _MILLISECONDS))):
            if self._watched.get(descriptor) is watched[descriptor]:  # a handler before may have closed it
                watched[descriptor][0]()

    def _wake_at(self, until: float) -> None:
        # An alarm that is due earlier stays: it costs one idle step, setting a new one each time costs more.
        when = self._loop.time() + max(0.0, until - time.monotonic())
        if self._alarm is None or self._alarm.when() > when:
            self._silence()
            self._alarm = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._changed.set()

    def _silence(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _attach(self, descriptor: int) -> None:
        handler, writable = self._watched[descriptor]
        register = self._loop.add_writer if writable else self._loop.add_reader
        register(descriptor, self._call, handler)

    def _detach(self, descriptor: int) -> None:
        if self._loop.is_closed() or os.getpid() != self._owner:
            return  # its selector is closed too; that of a parent is shared, and the entry is the parent's
        if self._watched[descriptor][1]:
            self._loop.remove_writer(descriptor)
        else:
            self._loop.remove_reader(descriptor)

    def _call(self, handler: Callable[[], object]) -> None:
        try:
            handler()
        except Exception as error:
            self._failure = error
        self._changed.set()


async def drive_in_loop(exchange: Exchange, watcher: LoopWatcher, give_up_at: float = math.inf) -> None:
    """Run `exchange` to its end in the running loop, or until `give_up_at` (time.monotonic seconds) has come.

    When the task is cancelled the tree is ended first, END_SECONDS at most, and only then does the cancellation go on.
    """
    import asyncio

    with watcher:
        try:
            while not exchange.done:
                await watcher.step(min(exchange.due_at(), give_up_at))
                exchange.tick()
                if time.monotonic() >= give_up_at:
                    break
        except BaseException as error:
            try:
                if isinstance(error, asyncio.CancelledError):
                    exchange.request_end(EndedBy.CANCELLED)
                    await _despite_cancelling(exchange, watcher)
            finally:
                exchange.abandon()
            raise


async def _despite_cancelling(exchange: Exchange, watcher: LoopWatcher) -> None:
    import asyncio

    while not exchange.done:
        try:
            await watcher.step(exchange.due_at())
        except asyncio.CancelledError:
            pass  # one is on its way out already
        exchange.tick()

"""A command that is still running, as a handle: take its events, feed it, cancel it, wait for it.

Output is read while events are taken; a command that nobody listens to waits at a full pipe
and ends at its deadline all the same.
"""

from __future__ import annotations

import math
import select
import threading
import time
from collections.abc import AsyncIterator, Iterator

from fable_exec.errors import LaunchFailed
from fable_exec.outcome import Outcome
from fable_exec.runner.driving import LoopWatcher, PollWatcher, drive_in_loop
from fable_exec.runner.events import Event, EventQueue
from fable_exec.runner.exchange import Exchange
from fable_exec.runner.feeding import PIECE_BYTES

_STEP_SECONDS = 0.05


class RunningCommand(EventQueue):
    """The blocking handle. Methods may be called from several threads; events go to whoever asks first."""

    def __init__(self, watcher: PollWatcher) -> None:
        super().__init__()
        self._watcher = watcher
        self._lock = threading.Lock()

    def next_event(self, timeout_seconds: float | None = None) -> Event | None:
        """The next event; None after the last one, or when none came in `timeout_seconds`.

        Raises LaunchFailed when the command never started.
        """
        give_up_at = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        self._attached.refuse_inherited()  # before the lock: in a forked child a thread that is not there may hold it
        while True:
            with self._lock:
                event = self.pop()
                if event is not None or self._finished:
                    return event
                self._step(give_up_at)
            if give_up_at is not None and time.monotonic() >= give_up_at:
                with self._lock:
                    return self.pop()

    def events(self) -> Iterator[Event]:
        """Every event to the last."""
        while (event := self.next_event()) is not None:
            yield event

    def write_stdin(self, data: bytes, timeout_seconds: float | None = None) -> int:
        """Write `data`, waiting for the command to read it; returns how many bytes it took in that time.

        Raises BrokenPipeError when the command has closed its standard input or ended.
        """
        give_up_at = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        rest = memoryview(data)
        while rest:
            rest = rest[_feed(self.exchange, rest) :]
            if give_up_at is not None and time.monotonic() >= give_up_at:
                break
            if rest:
                self._until_writable(min(give_up_at or math.inf, time.monotonic() + _STEP_SECONDS))
        return len(data) - len(rest)

    def close_stdin(self) -> None:
        """Let the command see the end of its standard input, after all that was given to it."""
        self.exchange.input.finish()

    def wait(self, timeout_seconds: float | None = None) -> Outcome | None:
        """Drop the remaining events and return the outcome, output included; None when it did not end in `timeout_seconds`."""
        give_up_at = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while not self.exchange.done:
            with self._lock:
                if not self.exchange.done:
                    self._step(give_up_at)
            self._pending.clear()
            if give_up_at is not None and time.monotonic() >= give_up_at and not self.exchange.done:
                return None
        return self.exchange.outcome()

    def close(self) -> None:
        """End the command if it still runs, and release everything; in a forked child the copies here. Idempotent."""
        if self.inherited:
            self.abandon()
        elif not self.exchange.done:
            self.cancel()
            try:
                self.wait()
            except LaunchFailed:
                pass  # it never ran, so there is nothing to end

    def __enter__(self) -> RunningCommand:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _step(self, give_up_at: float | None) -> None:
        # Short steps let another thread in, and let `cancel` from another thread take effect.
        until = min(self.exchange.due_at(), time.monotonic() + _STEP_SECONDS)
        self._watcher.step(until if give_up_at is None else min(until, give_up_at))
        self.exchange.tick()

    def _until_writable(self, until: float) -> None:
        """Wait for the command to read, and take its output meanwhile unless another thread does: it may wait for that."""
        descriptor = self.exchange.input.descriptor
        if not self._lock.acquire(blocking=False):
            _wait_writable(descriptor, until)
            return
        try:
            if self.exchange.done:
                return
            if self.exchange.input.pushing:
                self._step(until)  # its pusher watches the descriptor
            else:
                self._step_watching(descriptor, until)
        finally:
            self._lock.release()

    def _step_watching(self, descriptor: int, until: float) -> None:
        self._watcher.watch(descriptor, _nothing, writable=True)
        try:
            self._step(until)
        finally:
            self._watcher.unwatch(descriptor)


def _feed(exchange: Exchange, rest: memoryview) -> int:
    try:
        return exchange.input.feed(bytes(rest[:PIECE_BYTES]))
    except BlockingIOError:
        return 0


def _wait_writable(descriptor: int, until: float) -> None:
    waiting = select.poll()
    if descriptor >= 0:
        waiting.register(descriptor, select.POLLOUT)
    waiting.poll(max(1, int((until - time.monotonic()) * 1000)))


def _nothing() -> None:
    """Being woken is all that is wanted."""


class AsyncRunningCommand(EventQueue):
    """The asyncio handle. One task may take events while another writes; `cancel` comes from any."""

    def __init__(self, watcher: LoopWatcher) -> None:
        super().__init__()
        self._watcher = watcher

    async def next_event(self) -> Event | None:
        """The next event; None after the last one. Raises LaunchFailed when the command never started."""
        while True:
            event = self.pop()
            if event is not None or self._finished:
                return event
            await self._step()

    async def events(self) -> AsyncIterator[Event]:
        """Every event to the last."""
        while (event := await self.next_event()) is not None:
            yield event

    async def write_stdin(self, data: bytes) -> None:
        """Write all of `data`, waiting for the command to read it. Raises BrokenPipeError when it does not."""
        rest = memoryview(data)
        while rest:
            rest = rest[_feed(self.exchange, rest) :]
            if rest:
                await self._until_writable()

    def close_stdin(self) -> None:
        """Let the command see the end of its standard input, after all that was given to it."""
        self.exchange.input.finish()

    async def wait(self, timeout_seconds: float | None = None) -> Outcome | None:
        """Drop the remaining events and return the outcome; None when the command did not end in `timeout_seconds`.

        Cancelling the waiting task ends the command.
        """
        give_up_at = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        await drive_in_loop(self.exchange, self._watcher, give_up_at)
        self._pending.clear()
        return self.exchange.outcome() if self.exchange.done else None

    def wait_without_loop(self, timeout_seconds: float) -> Outcome | None:
        """`wait` in the calling thread, whichever that is, when no task listens any more."""
        give_up_at = time.monotonic() + timeout_seconds
        while not self.exchange.done:
            self._watcher.look(min(self.exchange.due_at(), give_up_at))
            self.exchange.tick()
            if time.monotonic() >= give_up_at:
                break
        self._pending.clear()
        return self.exchange.outcome() if self.exchange.done else None

    async def close(self) -> None:
        """End the command if it still runs, and release everything; in a forked child the copies here. Idempotent."""
        if self.inherited:
            self.abandon()
        elif not self.exchange.done:
            self.cancel()
            try:
                await self.wait()
            except LaunchFailed:
                pass  # it never ran, so there is nothing to end

    async def __aenter__(self) -> AsyncRunningCommand:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _step(self) -> None:
        with self._watcher:
            await self._watcher.step(self.exchange.due_at())
        self.exchange.tick()

    async def _until_writable(self) -> None:
        descriptor = self.exchange.input.descriptor
        if self.exchange.done or self.exchange.input.pushing:
            await self._step()
            return
        self._watcher.watch(descriptor, _nothing, writable=True)
        try:
            await self._step()
        finally:
            self._watcher.unwatch(descriptor)

"""A command started through a client: the broker drains it, the handle asks for what came.

Pieces of the two streams that came between two answers lose their order among each other, never within a stream.
"""

from __future__ import annotations

import math
import os
import time
import warnings
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeAlias

from fable_exec.calls import AsyncCalls, BlockingCalls
from fable_exec.calls.building import as_bytes
from fable_exec.errors import AuditUnavailable, Conflict, FableExecError
from fable_exec.protocol import CommandResult, Event, Exited, Output, ReadCommandResult, Started, StartResult

__all__ = ["AsyncStartedCommand", "StartedCommand", "warn_of_unclosed"]

_LOOK_SECONDS = 20.0
"""How long one question waits for something to come."""


EndDropped: TypeAlias = Callable[[StartResult], None]
"""Warns and has that command ended. It must not wait for anything: the garbage collector calls it in the midst of anything."""


class _Followed:
    """What a handle knows of its command: turns answers into events with their numbers, and remembers the result.

    Until that is known, the command is ended when nobody has `handle` any more.
    """

    def __init__(self, handle: object, started: StartResult, end_dropped: EndDropped) -> None:
        self.started = started
        self.result: CommandResult | None = None
        self._sequence = 0
        # Weak, or a client that refers to its own handle could never be collected.
        self._finalizer = weakref.finalize(handle, _drop, weakref.WeakMethod(end_dropped), started)
        self._finalizer.atexit = False  # the broker ends with this process

    def first(self) -> Started:
        return Started(sequence=0)

    def take(self, piece: ReadCommandResult) -> Iterator[Event]:
        if piece.stdout_data:
            yield Output(sequence=self._next(), stream="stdout", data=piece.stdout_data)
        if piece.stderr_data:
            yield Output(sequence=self._next(), stream="stderr", data=piece.stderr_data)
        if piece.result is not None:
            self.result = result = piece.result
            self.let_go()
            yield Exited(sequence=self._next(), outcome=result.outcome, exit_code=result.exit_code, signal=result.signal)

    def let_go(self) -> None:
        """There is nothing left to end."""
        self._finalizer.detach()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Around a question about the command: most errors say that it never ran, or is over."""
        try:
            yield
        except (Conflict, AuditUnavailable):
            raise
        except FableExecError:
            self.let_go()
            raise

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence


def _drop(end_dropped: weakref.WeakMethod[Any], started: StartResult) -> None:
    end = end_dropped()
    if end is not None:  # a client that is gone too has ended what it ran
        end(started)


def warn_of_unclosed(started: StartResult) -> None:
    """As Python does of a file."""
    warnings.warn(f"unclosed command {os.path.basename(started.command[0])!r}", ResourceWarning, stacklevel=5)


class StartedCommand:
    """See fable_exec.calls.CommandHandle."""

    def __init__(self, broker: BlockingCalls, started: StartResult, end_dropped: EndDropped) -> None:
        self._broker = broker
        self._name = started.handle
        self._followed = _Followed(self, started, end_dropped)

    @property
    def command(self) -> tuple[str, ...]:
        """What was executed: the resolved executable and the arguments."""
        return self._followed.started.command

    def events(self) -> Iterator[Event]:
        """`Started`, every piece of output as it comes, and `Exited`. One thread at a time; events that were taken are gone."""
        yield self._followed.first()
        while self._followed.result is None:
            yield from self._read(_LOOK_SECONDS)

    def write_stdin(self, data: str | bytes) -> int:
        """Send input, waiting for the command to read it; returns the number of bytes it took."""
        rest = as_bytes(data, "data")
        size = len(rest)
        while rest:
            rest = rest[self._broker.write_stdin(self._name, rest).accepted_bytes :]
        return size

    def close_stdin(self) -> None:
        """Let the command see the end of its input."""
        self._broker.write_stdin(self._name, close=True)

    def cancel(self) -> None:
        """End the whole tree; the outcome is `cancelled` unless the command had ended by itself. From any thread."""
        self._broker.cancel_command(self._name)

    def wait(self, timeout_seconds: float | None = None) -> CommandResult | None:
        """The result, with all of the output; None when the command did not end in that time. Drops events not taken."""
        give_up_at = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        while self._followed.result is None:
            left = max(0.0, give_up_at - time.monotonic())
            self._read(min(_LOOK_SECONDS, left))
            if time.monotonic() >= give_up_at:
                break
        return self._followed.result

    def close(self) -> None:
        """End the command if it still runs. Idempotent."""
        try:
            if self._followed.result is None:
                self.cancel()
                self.wait()
        except FableExecError:
            pass  # it never ran, or the broker that ran it is gone
        finally:
            self._followed.let_go()

    def _read(self, seconds: float) -> list[Event]:
        with self._followed.asking():
            return list(self._followed.take(self._broker.read_command(self._name, seconds)))

    def __enter__(self) -> StartedCommand:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class AsyncStartedCommand:
    """See fable_exec.calls.AsyncCommandHandle."""

    def __init__(self, broker: AsyncCalls, started: StartResult, end_dropped: EndDropped) -> None:
        self._broker = broker
        self._name = started.handle
        self._followed = _Followed(self, started, end_dropped)

    @property
    def command(self) -> tuple[str, ...]:
        """What was executed: the resolved executable and the arguments."""
        return self._followed.started.command

    async def events(self) -> AsyncIterator[Event]:
        """`Started`, every piece of output as it comes, and `Exited`. Events that were taken are gone."""
        yield self._followed.first()
        while self._followed.result is None:
            for event in await self._read(_LOOK_SECONDS):
                yield event

    async def write_stdin(self, data: str | bytes) -> int:
        """Send input, waiting for the command to read it; returns the number of bytes it took."""
        rest = as_bytes(data, "data")
        size = len(rest)
        while rest:
            rest = rest[(await self._broker.write_stdin(self._name, rest)).accepted_bytes :]
        return size

    async def close_stdin(self) -> None:
        """Let the command see the end of its input."""
        await self._broker.write_stdin(self._name, close=True)

    async def cancel(self) -> None:
        """End the whole tree; the outcome is `cancelled` unless the command had ended by itself."""
        await self._broker.cancel_command(self._name)

    async def wait(self, timeout_seconds: float | None = None) -> CommandResult | None:
        """See AsyncCommandHandle."""
        give_up_at = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        try:
            while self._followed.result is None:
                left = max(0.0, give_up_at - time.monotonic())
                await self._read(min(_LOOK_SECONDS, left))
                if time.monotonic() >= give_up_at:
                    break
        except BaseException:
            await self.close()
            raise
        return self._followed.result

    async def close(self) -> None:
        """End the command if it still runs. Idempotent."""
        try:
            if self._followed.result is None:
                await self.cancel()
                await self._read(_LOOK_SECONDS)
        except FableExecError:
            pass  # it never ran, or the broker that ran it is gone
        finally:
            self._followed.let_go()

    async def _read(self, seconds: float) -> list[Event]:
        with self._followed.asking():
            return list(self._followed.take(await self._broker.read_command(self._name, seconds)))

    async def __aenter__(self) -> AsyncStartedCommand:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

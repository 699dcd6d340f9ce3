"""Who asked what, and who gets which line: a client's core, without any input or output (sans-IO).

Each request gets an id; its events and its one answer find their way back by it. Bytes are asked for in base64, so that what a
command wrote arrives exactly. Not thread-safe: the clients lend it their lock.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

import attrs

from fable_exec.errors import BrokerGone, FableExecError, FrameTooLarge, InternalError
from fable_exec.frames import END, NEED_DATA, FrameReader, Oversized, encode_frame
from fable_exec.policy import Limits
from fable_exec.protocol import (
    Answer,
    Event,
    ExecuteCommand,
    InspectFiles,
    ReadCommand,
    Request,
    Result,
    decode_answer,
    decode_event,
    decode_result,
    encode_request,
    parse_answer,
)

__all__ = ["Conversation", "Pending"]

_EVENT_ROOM = 1 << 20
"""An event may be longer than the longest answer allowed: 64 KiB of output, each byte six characters."""


class Pending:
    """One request that waits for its answer. `wake` is called after every change."""

    def __init__(self, identifier: int, request: Request, wake: Callable[[], None]) -> None:
        self.id = identifier
        self.request = request
        self.wake = wake
        self.events: deque[Event] = deque()
        self.done = False
        self.waits = False
        self._answer: dict[str, Any] | None = None
        self._error: FableExecError | None = None

    def settle(self, answer: dict[str, Any] | None, error: FableExecError | None) -> None:
        """The answer has come, or never will."""
        if not self.done:
            self._answer, self._error, self.done = answer, error, True
        self.wake()

    def result(self) -> Result:
        """The typed result. Raises what the broker raised, or BrokerGone."""
        if self._error is not None:
            raise self._error
        if self._answer is None:
            raise InternalError("a request was taken for answered without an answer")
        result: Result = decode_result(self.request, self._answer)
        return result


class Conversation:
    """The requests in flight on one connection."""

    def __init__(self, limits: Limits) -> None:
        self._max_frame_bytes = limits.max_frame_bytes
        self._reader = FrameReader(max(limits.max_answer_bytes, _EVENT_ROOM) + 1)
        self._ids = itertools.count(1)
        self._pending: dict[int, Pending] = {}
        self._lost: FableExecError | None = None

    def ask(self, request: Request, wake: Callable[[], None]) -> tuple[Pending, bytes]:
        """A new request and the line to send for it.

        Raises:
            FrameTooLarge: the broker would refuse so long a line.
            BrokerGone: the connection is lost.
        """
        if self._lost is not None:
            raise _again(self._lost)
        pending = Pending(next(self._ids), _exact(request), wake)
        line = encode_frame(encode_request(pending.request, pending.id))
        if len(line) - 1 > self._max_frame_bytes:
            raise FrameTooLarge(
                f"a request of {len(line) - 1} bytes is longer than the broker takes ({self._max_frame_bytes}); raise "
                "limits.max_frame_bytes, or send content with append and input with write_stdin, piece by piece"
            )
        self._pending[pending.id] = pending
        return pending, line

    def receive(self, data: bytes) -> None:
        """Hand out what the broker sent; b"" is its end, after which everything is BrokerGone."""
        if not data:
            self.lose(BrokerGone("the broker ended"))
            return
        self._reader.feed(data)
        try:
            while (frame := self._reader.next_frame()) is not NEED_DATA and frame is not END:
                self._take(frame)
        except FableExecError as error:
            self.lose(error)

    def forget(self, pending: Pending) -> None:
        """Nobody waits for its answer any more; it is dropped when it comes."""
        self._pending.pop(pending.id, None)

    def lose(self, error: FableExecError) -> None:
        """The connection is of no use: whoever waits, and whoever asks from now on, gets `error`."""
        if self._lost is None:
            self._lost = error
        for pending in list(self._pending.values()):
            pending.settle(None, _again(self._lost))
        self._pending.clear()

    @property
    def waiting(self) -> list[Pending]:
        """The requests that have no answer yet."""
        return list(self._pending.values())

    def _take(self, frame: bytes | Oversized) -> None:
        if isinstance(frame, Oversized):
            raise BrokerGone(f"the broker sent a line of {frame.size} bytes, which it never should")
        members = parse_answer(frame)
        if "event" in members:
            self._take_event(members)
        else:
            self._take_answer(decode_answer(members))

    def _take_event(self, members: dict[str, Any]) -> None:
        pending = self._pending.get(members.get("id", 0))
        if pending is not None:
            pending.events.append(decode_event(members))
            pending.wake()

    def _take_answer(self, answer: Answer) -> None:
        if answer.id is None:
            raise answer.error or BrokerGone("the broker answered a request that was never sent")
        pending = self._pending.pop(answer.id, None) if isinstance(answer.id, int) else None
        if pending is not None:
            pending.settle(answer.result, answer.error)


def _exact(request: Request) -> Request:
    if isinstance(request, ExecuteCommand | InspectFiles | ReadCommand):
        return attrs.evolve(request, encoding="base64")
    return request


def _again(error: FableExecError) -> FableExecError:
    """A new instance: one that several threads raise would collect all their tracebacks."""
    return type(error)(str(error))

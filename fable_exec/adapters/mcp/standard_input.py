"""Standard input as the SDK reads it: lines that are messages of JSON-RPC, of bounded length. All others are answered here.

The SDK itself keeps a line of any length in memory, and leaves whoever sent what is no message without an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
from collections.abc import Iterator
from typing import Any

import mcp_types as types
from mcp.shared.message import SessionMessage

from fable_exec.frames import END, NEED_DATA, FrameReader, Oversized

__all__ = ["MAX_MESSAGE_BYTES", "MessageLines", "diverted_input"]

MAX_MESSAGE_BYTES = 64 * 1024**2
"""A file travels in one message. No request line of a broker may be longer."""

_INPUT = 0
_READ_BYTES = 64 * 1024


@contextlib.contextmanager
def diverted_input() -> Iterator[int]:
    """A descriptor of what was standard input, which is the null device meanwhile: a program that is started reads nothing there.

    It stays open afterwards: a thread that cannot be woken may still read it.
    """
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        private = os.dup(_INPUT)
        os.dup2(null, _INPUT)
    finally:
        os.close(null)
    try:
        yield private
    finally:
        os.dup2(private, _INPUT)


class MessageLines:
    """For `stdio_server(stdin=...)`, which goes through it; `answer_by` is to be called once it has begun."""

    def __init__(self, descriptor: int, max_bytes: int) -> None:
        self._descriptor = descriptor
        self._frames = FrameReader(max_bytes)
        self._answers: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def answer_by(self, answers: Any) -> None:
        """Refusals go to this stream of the SDK's."""
        self._answers.set_result(answers)

    def __aiter__(self) -> MessageLines:
        return self

    async def __anext__(self) -> str:
        while True:
            frame = self._frames.next_frame()
            if frame is END:
                raise StopAsyncIteration
            if frame is NEED_DATA:
                await self._read_more()
            elif isinstance(frame, Oversized):
                words = f"a message of {frame.size} bytes is longer than {self._frames.max_frame_bytes}; it was skipped"
                await self._refuse(None, types.INVALID_REQUEST, words)
            else:
                assert isinstance(frame, bytes)
                text = frame.decode("utf-8", "replace")
                if await self._is_message(text):
                    return text

    async def _read_more(self) -> None:
        data = await asyncio.to_thread(_read, self._descriptor)
        if data:
            self._frames.feed(data)
        else:
            self._frames.feed_eof()

    async def _is_message(self, text: str) -> bool:
        try:
            types.jsonrpc_message_adapter.validate_json(text, by_name=False)
        except ValueError:  # pydantic's, too
            refusal = _refusal_of(text)
            if refusal is not None:
                await self._refuse(*refusal)
            return False
        return True

    async def _refuse(self, identity: str | int | None, code: int, words: str) -> None:
        error = types.JSONRPCError(jsonrpc="2.0", id=identity, error=types.ErrorData(code=code, message=words))
        await (await asyncio.shield(self._answers)).send(SessionMessage(error))


def _read(descriptor: int) -> bytes:
    """The next bytes, b"" at the end. Who shares the descriptor may have made it non-blocking."""
    while True:
        try:
            return os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            waiting = select.poll()  # select(2) takes no descriptor beyond 1023
            waiting.register(descriptor, select.POLLIN)
            waiting.poll()


def _refusal_of(text: str) -> tuple[str | int | None, int, str] | None:
    """How what is no message is answered: by its id where it is a request that has one. None for what nobody waits for."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None, types.PARSE_ERROR, "this line is no JSON, or nested too deep"
    if not isinstance(found, dict):
        return None, types.INVALID_REQUEST, "this is no message of JSON-RPC; batches are not known"
    if "method" not in found or "id" not in found:
        return None
    return _identity(found["id"]), types.INVALID_REQUEST, "this is no request of JSON-RPC 2.0 whose texts are Unicode"


def _identity(claimed: object) -> str | int | None:
    if isinstance(claimed, str) and claimed.isprintable():  # no half of a surrogate pair, which cannot be sent
        return claimed
    return claimed if type(claimed) is int else None

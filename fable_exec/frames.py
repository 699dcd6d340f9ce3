"""Bytes to bounded lines and back, without any input or output of its own (sans-IO).

A frame is what stands before a newline. `FrameReader` is fed whatever a pipe or a socket gave and hands out whole frames; it
knows neither JSON nor descriptors. It holds at most one unfinished frame of `max_frame_bytes`, plus the piece it was fed last.
"""

from __future__ import annotations

import json
from collections import deque
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

import attrs

__all__ = ["DEFAULT_MAX_FRAME_BYTES", "END", "NEED_DATA", "FrameReader", "NextFrame", "Oversized", "encode_frame"]

DEFAULT_MAX_FRAME_BYTES = 1024 * 1024


class _Signal(Enum):
    NEED_DATA = "need data"
    END = "end"

    def __repr__(self) -> str:
        return self.name


NEED_DATA: Final = _Signal.NEED_DATA
"""No whole frame is at hand: feed more bytes, or say `feed_eof`."""

END: Final = _Signal.END
"""The stream ended and every frame has been handed out. Asking again gives the same answer."""


@attrs.frozen
class Oversized:
    """A frame was longer than allowed. Its bytes are gone, the next frame is in step. `size` counts them without the newline."""

    size: int


NextFrame: TypeAlias = bytes | Oversized | Literal[_Signal.NEED_DATA, _Signal.END]


class FrameReader:
    """Cuts a byte stream into frames.

    A frame ends at a newline; one carriage return right before it does not belong to it. Blank lines (nothing but white space)
    are no frames. At the end of the stream an unterminated rest counts as one frame. A frame of exactly `max_frame_bytes` bytes
    is whole; of a longer one nothing is kept but its size.

    Every byte is searched for a newline once and copied at most three times, however the stream is split. Memory stays within one
    frame plus what has been fed and not yet asked for: ask `next_frame` until NEED_DATA before reading more. One thread at a
    time.
    """

    __slots__ = ("_at", "_chunk", "_ended", "_partial", "_swallowed", "_waiting", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        if max_frame_bytes < 1:
            raise ValueError(f"max_frame_bytes must be at least 1, not {max_frame_bytes}")
        self.max_frame_bytes = max_frame_bytes
        self._chunk = b""  # the piece being cut; everything before _at is dealt with
        self._at = 0
        self._waiting: deque[bytes] = deque()  # pieces fed after it
        self._partial = bytearray()  # the beginning of the frame that continues in _chunk; holds no newline
        self._swallowed = 0  # size so far of an oversized frame; its bytes are dropped as they come
        self._ended = False

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take the next bytes of the stream; `data` may be reused afterwards. ValueError after `feed_eof`."""
        if self._ended:
            raise ValueError("bytes after the end of the stream")
        if data:
            self._waiting.append(bytes(data))

    def feed_eof(self) -> None:
        """Say that the stream has ended. Saying it again changes nothing."""
        self._ended = True

    def next_frame(self) -> NextFrame:
        """The next frame without its newline, `Oversized` for one that was skipped, NEED_DATA, or END when all is handed out."""
        while True:
            end = self._chunk.find(b"\n", self._at)
            if end >= 0:
                frame = self._take(end)
                self._at = end + 1
                if frame is not None:
                    return frame
                continue
            self._keep_rest()
            if self._waiting:
                self._chunk = self._waiting.popleft()
            elif not self._ended:
                return NEED_DATA
            else:
                return self._take(0) or END

    def _keep_rest(self) -> None:
        """Move the unfinished frame out of the piece, so that it is never searched again."""
        size = len(self._chunk) - self._at
        if self._swallowed:
            self._swallowed += size
        elif len(self._partial) + size > self.max_frame_bytes + 1:  # one more: it may be the carriage return
            self._swallowed = len(self._partial) + size
            self._partial = bytearray()
        elif size:
            self._partial += memoryview(self._chunk)[self._at :]
        self._chunk, self._at = b"", 0

    def _take(self, end: int) -> bytes | Oversized | None:
        """The frame that ends at `end` of the piece, None if it is blank."""
        if self._swallowed:
            size = self._swallowed + end - self._at
            self._swallowed = 0
            return Oversized(size)
        frame = self._chunk[self._at : end]
        if self._partial:
            self._partial += frame
            frame = bytes(self._partial)
            self._partial = bytearray()
        size = len(frame)
        if frame.endswith(b"\r"):
            frame = frame[:-1]
        if len(frame) > self.max_frame_bytes:
            return Oversized(size)
        return frame if frame and not frame.isspace() else None


def encode_frame(value: Any) -> bytes:
    """`value` as one line of JSON, newline included.

    Characters beyond ASCII go out as UTF-8, lone surrogates as escapes; NaN and Infinity are a ValueError: they are no JSON.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate somewhere
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode() + b"\n"

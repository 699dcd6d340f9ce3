"""Commands over an inherited descriptor. A pipe is one-way: errors go to standard error. A socket is answered as well.

Its end is harmless: the broker goes on without an admin.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterable

from fable_exec._sys.given import fault_of_input
from fable_exec.admin.control import MAX_LINE_BYTES, AdminControl, complain, encode, no_channel
from fable_exec.frames import END, NEED_DATA, FrameReader, Oversized

__all__ = ["DescriptorChannel"]

_READ_BYTES = 1 << 16


class DescriptorChannel:
    """Owns the descriptor from now on. Raises PolicyError when it is none to read from, or one of the model's."""

    def __init__(self, descriptor: int, control: AdminControl) -> None:
        if fault := fault_of_input(descriptor):
            raise no_channel(f"the admin's descriptor {descriptor} {fault}")
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor
        self._socket = socket.socket(fileno=os.dup(descriptor)) if stat.S_ISSOCK(os.fstat(descriptor).st_mode) else None
        self._control = control
        self._reader = FrameReader(MAX_LINE_BYTES)
        self._ended = False

    def watched(self) -> Iterable[int]:
        return () if self._ended else (self._descriptor,)

    def ready(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return  # whoever shares the open file made it non-blocking, and took what was there
        except OSError:
            data = b""
        if data:
            self._reader.feed(data)
        else:
            self._ended = True
            self._reader.feed_eof()
        while (frame := self._reader.next_frame()) is not NEED_DATA and frame is not END:
            self._take(frame)

    def due_at(self) -> float | None:
        return None

    def tick(self) -> None:
        """Nothing here depends on time."""

    def close(self) -> None:
        os.close(self._descriptor)
        if self._socket is not None:
            self._socket.close()

    def _take(self, frame: bytes | Oversized) -> None:
        if isinstance(frame, Oversized):
            answer = {"ok": False, "error": f"a command of {frame.size} bytes is too long", "code": "frame-too-large"}
        else:
            answer = self._control.answer(frame)
        if not answer["ok"]:
            complain(answer["error"])
        if self._socket is not None:
            self._answer(encode(answer))

    def _answer(self, line: bytes) -> None:
        assert self._socket is not None
        try:
            self._socket.send(line, socket.MSG_DONTWAIT)
        except OSError:
            pass  # an admin who does not read does not want to know

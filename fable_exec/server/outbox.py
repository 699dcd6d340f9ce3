"""Whole lines to a peer that may read slowly, or not at all, without ever blocking the thread that listens to it.

Only what poll(2) says can be taken at once is written, so the descriptor, which others may share, keeps its mode. What is left
waits here and is written when the peer reads on. Workers wait their turn before they encode, so at most one line more than
`HIGH_WATER_BYTES` is ever held.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

from fable_exec._sys.inherited import AT_ONCE_BYTES, GONE

__all__ = ["HIGH_WATER_BYTES", "Outbox"]

HIGH_WATER_BYTES = 256 * 1024


class Outbox:
    """Thread-safe. `wake` is called when something is left for `flush`, which the listening thread calls when it can."""

    def __init__(self, descriptor: int, wake: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._wake = wake
        self._turn = threading.Lock()
        self._changed = threading.Condition()
        self._pending = bytearray()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self.broken = False

    @property
    def pending_bytes(self) -> int:
        """How much waits for the peer to read."""
        return len(self._pending)

    def post(self, line: bytes) -> None:
        """Write `line` or keep it; never blocks."""
        with self._changed:
            self._put(line)

    def send(self, make_line: Callable[[], bytes]) -> None:
        """Wait until the peer has read enough, make the line and write or keep it. Dropped when the peer is gone."""
        with self._turn:
            with self._changed:
                self._changed.wait_for(lambda: self.broken or len(self._pending) < HIGH_WATER_BYTES)
            if not self.broken:
                self.post(make_line())

    def flush(self) -> None:
        """Write what the peer can take now."""
        with self._changed:
            written = self._write(memoryview(self._pending))
            del self._pending[:written]
            self._changed.notify_all()

    def give_up(self) -> None:
        """The peer is gone: drop everything and let everyone who waits go on."""
        with self._changed:
            self.broken = True
            self._pending.clear()
            self._changed.notify_all()

    def _put(self, line: bytes) -> None:
        if self.broken:
            return
        written = 0 if self._pending else self._write(memoryview(line))
        if written < len(line) and not self.broken:
            self._pending += memoryview(line)[written:]
            self._wake()

    def _write(self, data: memoryview) -> int:
        """Write as much of `data` as the peer takes at once; returns how much."""
        done = 0
        try:
            while done < len(data) and self._can_write():
                done += os.write(self._descriptor, data[done : done + AT_ONCE_BYTES])
        except BlockingIOError:
            pass  # whoever shares the open file made it non-blocking, and filled it first
        except OSError:
            self.broken = True
            self._wake()
        finally:
            data.release()
        return done

    def _can_write(self) -> bool:
        ready = self._poll.poll(0)
        if not ready:
            return False
        if ready[0][1] & GONE:
            raise BrokenPipeError
        return True

"""A command's output on its way to whoever reads ours: byte for byte, by a thread for each stream.

A write can block for as long as a reader likes, whatever poll(2) said before: others may fill the same pipe in between.
O_NONBLOCK would belong to every program that shares the open file. So a thread waits; who has a deadline looks at what it says.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable

from .outputs import GONE, write_all

_PIECE_BYTES = 1 << 16
_LAST_MILLISECONDS = 200
"""A command may be about to end just as its reader goes, as one does before `head`: nothing is lost then."""


class Passage:
    """One stream: give `inlet` to the command, close it, and `start`.

    Args:
        target: where to; it stays the caller's. watched: whether a reader that goes away is noticed while nothing is written.
        over: readable once nobody is left who could write; what lies in the pipe then is the rest.
        ring: called by the thread at its end.
    """

    def __init__(self, target: int, over: int, ring: Callable[[], object], *, watched: bool) -> None:
        self._source, self.inlet = os.pipe()
        self._target, self._over, self._ring, self._watched = target, over, ring, watched
        self.renewed_at = time.monotonic()
        """When something was last written by the command, or taken by our reader."""
        self.is_handing_on = False
        self.reader_gone = False
        self.error: OSError | None = None
        self.is_done = False
        self.ends_a_line = True

    def start(self) -> None:
        """Pass on, until the end of the stream, of its reader, or of everybody who could write."""
        threading.Thread(target=self._pass_on, name="passage", daemon=True).start()

    def _pass_on(self) -> None:
        try:
            while self._await_data() and (data := os.read(self._source, _PIECE_BYTES)):
                self.renewed_at = time.monotonic()
                self.is_handing_on = True
                write_all(self._target, data)
                self.ends_a_line = data.endswith(b"\n")
                self.renewed_at = time.monotonic()
                self.is_handing_on = False
        except ConnectionError:
            self.reader_gone = True
        except OSError as error:
            self.error = error
        self.is_handing_on = False
        os.close(self._source)  # who writes on gets what writers to a closed pipe get
        self.is_done = True
        self._ring()

    def _await_data(self) -> bool:
        """Wait; False when nothing more will come. What was written before the end comes first."""
        waiting = select.poll()
        waiting.register(self._source, select.POLLIN)
        waiting.register(self._over, select.POLLIN)
        if self._watched:
            waiting.register(self._target, 0)
        ready = dict(waiting.poll())
        if ready.get(self._target, 0) & GONE and not self._ends_without_a_word():
            raise BrokenPipeError
        return self._source in ready

    def _ends_without_a_word(self) -> bool:
        waiting = select.poll()
        waiting.register(self._source, select.POLLIN)
        return [event for _, event in waiting.poll(_LAST_MILLISECONDS)] == [select.POLLHUP]


def write_within(target: int, data: bytes, seconds: float) -> None:
    """Write `data` and wait for that so long at most; nobody need be reading."""

    def write() -> None:
        try:
            write_all(target, data)
        except OSError:
            pass  # nobody listens

    writer = threading.Thread(target=write, name="words", daemon=True)
    writer.start()
    writer.join(seconds)

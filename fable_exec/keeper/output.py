"""A job's output: from the pipe of each attempt to one log, at most so many bytes of it, the rest counted and dropped."""

from __future__ import annotations

import os
from pathlib import Path

from fable_exec.executions.logs import open_log

__all__ = ["OutputLog"]

_PIECE_BYTES = 65536
_PIECES_AT_ONCE = 16


class OutputLog:
    """The log, and the reading end of one pipe after the other.

    Args:
        log: the log, open already; it is opened here where that is below 0.

    Attributes:
        pipe: the one that is read now, ours; -1 while there is none.
        written_bytes: what came. dropped_bytes: what of it is not in the log, for want of room in its bound or on the disk.
            Both of all pipes together.
        log: the descriptor of the log, -1 as long as it cannot be opened.
        is_over: the end of the pipe was seen: nobody has the other one.
    """

    def __init__(self, path: Path | str, most_bytes: int, log: int = -1) -> None:
        self._path, self.log = path, log
        if log < 0:
            self._open()
        self._room = most_bytes
        self.written_bytes = self.dropped_bytes = 0
        self.pipe = -1
        self.is_over = True

    def _open(self) -> None:
        """Where it cannot be opened now it is tried again with each piece, and what comes until then is dropped."""
        try:
            self.log = open_log(self._path)
        except OSError:
            pass

    @property
    def counts(self) -> tuple[int, int, int, bool]:
        """What came, what of it was dropped, what there is room for yet, whether the pipe is over: for `go_on`."""
        return self.written_bytes, self.dropped_bytes, self._room, self.is_over

    def go_on(self, written: int, dropped: int, room: int, is_over: bool) -> None:
        """From what another process counted of the same pipe."""
        self.written_bytes, self.dropped_bytes, self._room, self.is_over = written, dropped, room, is_over

    def attach(self, pipe: int) -> None:
        """Read `pipe` from now on."""
        os.set_blocking(pipe, False)
        self.pipe = pipe
        self.is_over = False

    def detach(self) -> None:
        """Close the pipe, whatever is still in it."""
        os.close(self.pipe)
        self.pipe = -1
        self.is_over = True

    def take(self) -> bool:
        """Move what is there, a bounded amount; whether there was anything."""
        before = self.written_bytes
        for _ in range(_PIECES_AT_ONCE):
            try:
                piece = os.read(self.pipe, _PIECE_BYTES)
            except BlockingIOError:
                break
            if not piece:
                self.is_over = True
                break
            self._write(piece)
        return self.written_bytes > before

    def _write(self, piece: bytes) -> None:
        self.written_bytes += len(piece)
        kept = self._append(piece[: self._room])
        self._room -= kept
        self.dropped_bytes += len(piece) - kept

    def _append(self, piece: bytes) -> int:
        """How many bytes of it are in the log: a full disk must not end the job, nor hold it up."""
        done = 0
        if self.log < 0:
            self._open()
        while done < len(piece):
            try:
                done += os.write(self.log, piece[done:])
            except OSError:
                break
        return done

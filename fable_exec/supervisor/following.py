"""Read the logs of an execution, and go on while its keeper writes them. In pieces: a log may be longer than memory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fable_exec.errors import StateUnreadable
from fable_exec.privatefiles import NotPrivate, open_private
from fable_exec.supervisor.waiting import KeeperWatch

__all__ = ["LogReader", "events_in", "pieces_now", "pieces_until_end"]

_PIECE_BYTES = 65536
_PAUSE_SECONDS = 0.05


class LogReader:
    """One log from its start, opened when it is there. It is the caller's to close."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def read(self) -> bytes:
        """What is there next, a piece at most; nothing when there is no more now. One that was truncated begins anew.

        Raises:
            StateUnreadable: something else has the name of the log, or another user's file. OSError.
        """
        if self._is_missing():
            return b""
        piece = os.read(self._fd, _PIECE_BYTES)
        if piece or os.fstat(self._fd).st_size >= os.lseek(self._fd, 0, os.SEEK_CUR):
            return piece
        os.lseek(self._fd, 0, os.SEEK_SET)
        return os.read(self._fd, _PIECE_BYTES)

    def size(self) -> int:
        """How long it is now. Raises as `read`."""
        return 0 if self._is_missing() else os.fstat(self._fd).st_size

    def close(self) -> None:
        """Give the descriptor back. May be called again."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _is_missing(self) -> bool:
        if self._fd < 0:
            self._fd = _opened(self._path)
        return self._fd < 0


def pieces_now(path: Path) -> Iterator[bytes]:
    """The bytes that the log has now, however fast it grows meanwhile."""
    with LogReader(path) as reader:
        left = reader.size()
        while left > 0 and (piece := reader.read()[:left]):
            left -= len(piece)
            yield piece


def pieces_until_end(path: Path, watch: KeeperWatch) -> Iterator[bytes]:
    """The bytes of the log, each once and in order, until nobody keeps the execution and all was given out."""
    with LogReader(path) as reader:
        while True:
            is_over = watch.wait(0)  # asked before reading: what was written before the end is read after it
            while piece := reader.read():
                yield piece
            if is_over:
                return
            watch.wait(_PAUSE_SECONDS)


def events_in(log: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The events in the pieces of a supervisor.log. A line that is not whole, or no JSON object, is none."""
    unfinished = b""
    for piece in log:
        *lines, unfinished = (unfinished + piece).split(b"\n")
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event


def _opened(path: Path) -> int:
    """A descriptor; -1 where there is no such file (yet)."""
    try:
        return open_private(path, os.O_RDONLY)
    except FileNotFoundError:
        return -1
    except NotPrivate as error:
        why = f"{ascii(str(path))[:400]} is no log of ours: {error.strerror}"
        raise StateUnreadable(why, reason="not-private", path=str(path)) from None

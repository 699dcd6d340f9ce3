"""The lock of a state: flock(2) on a file of its own, between threads and processes, safe with forks, waited for in a bound."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fable_exec._sys import locks
from fable_exec.statefile.opening import close, open_private

__all__ = ["held_lock"]


@contextmanager
def held_lock(path: Path, dir_fd: int, seconds: float) -> Iterator[None]:
    """Hold the lock file, made if need be and never removed, against every other opener in any process or thread.

    A child that is forked meanwhile may leave the block too and gives back nothing: the lock is its parent's.

    Args:
        path: its name is looked for in the directory `dir_fd`; the rest of it is for messages.
        dir_fd: the directory.
        seconds: how long another may hold it.
    Raises:
        TimeoutError: another held it for all of `seconds`; the error names `path`.
        BadDocument, OSError: as `open_private`; FileNotFoundError when the directory was removed.
    """
    fd, owner = _lock(path, dir_fd, time.monotonic() + seconds), os.getpid()
    try:
        yield
    finally:
        try:
            if os.getpid() == owner:
                locks.unlock(fd)  # close alone would not do where a child has the descriptor too
        finally:
            close(fd)


def _lock(path: Path, dir_fd: int, deadline: float) -> int:
    while True:
        fd = open_private(path.name, os.O_RDWR | os.O_CREAT, dir_fd)
        try:
            if not locks.lock_within(fd, deadline - time.monotonic()):
                raise TimeoutError(errno.ETIMEDOUT, "another process holds the lock", str(path))
            if os.fstat(fd).st_nlink:
                return fd
        except BaseException:
            close(fd)
            raise
        close(fd)  # it was removed while we waited: who comes next locks another one

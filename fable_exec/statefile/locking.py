"""The lock of a state: flock(2) on a file of its own, between threads and processes, safe with forks, waited for in a bound."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fable_exec.privatefiles import lock_within
from fable_exec.statefile.opening import close, open_private

if sys.platform != "win32":
    import fcntl

__all__ = ["held_lock"]


@contextmanager
def held_lock(name: str, dir_fd: int, seconds: float) -> Iterator[None]:
    """Hold the lock file `name`, made if need be and never removed, against every other opener in any process or thread.

    A child that is forked meanwhile may leave the block too and gives back nothing: the lock is its parent's.

    Raises:
        TimeoutError: another held it for all of `seconds`.
        BadDocument, OSError: as `open_private`; FileNotFoundError when the directory was removed.
    """
    fd, owner = _lock(name, dir_fd, time.monotonic() + seconds), os.getpid()
    try:
        yield
    finally:
        try:
            if os.getpid() == owner:
                fcntl.flock(fd, fcntl.LOCK_UN)  # close alone would not do where a child has the descriptor too
        finally:
            close(fd)


def _lock(name: str, dir_fd: int, deadline: float) -> int:
    while True:
        fd = open_private(name, os.O_RDWR | os.O_CREAT, dir_fd)
        try:
            if not lock_within(fd, deadline - time.monotonic()):
                raise TimeoutError(errno.ETIMEDOUT, "another process holds the lock", name)
            if os.fstat(fd).st_nlink:
                return fd
        except BaseException:
            close(fd)
            raise
        close(fd)  # it was removed while we waited: who comes next locks another one

"""Advisory locks of open files, flock(2), the same on every POSIX system; OSError(ENOSYS) elsewhere.

A lock belongs to the open file description: a second `open` of the same process is kept out, a forked child shares it.
"""

from __future__ import annotations

import errno
import os
import sys
import time

if sys.platform != "win32":
    import fcntl

__all__ = ["lock_within", "try_lock", "try_lock_if_possible", "try_shared_lock", "unlock"]

_LOOK_SECONDS = 0.0005


def try_lock(fd: int) -> bool:
    """Take the lock without waiting; False when another has it.

    Raises:
        OSError: there are no locks here (ENOLCK, ENOSYS), or the descriptor is not open.
    """
    return _try(fd, shared=False)


def try_shared_lock(fd: int) -> bool:
    """The same for a lock that keeps out only those who want it alone: whoever just looks is in no other's way."""
    return _try(fd, shared=True)


def _try(fd: int, *, shared: bool) -> bool:
    if sys.platform == "win32":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def try_lock_if_possible(fd: int) -> bool:
    """The same for whom a lock is not all: True also where there are none, and the caller's other checks have to do."""
    try:
        return try_lock(fd)
    except OSError:
        return True


def lock_within(fd: int, seconds: float) -> bool:
    """Take the lock; False when another has it for all of `seconds`, 0 or less being one try. Raises as `try_lock`."""
    deadline = time.monotonic() + seconds
    while not try_lock(fd):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def unlock(fd: int) -> None:
    """Give the lock back, whoever else has the descriptor. Raises OSError."""
    if sys.platform != "win32":
        fcntl.flock(fd, fcntl.LOCK_UN)

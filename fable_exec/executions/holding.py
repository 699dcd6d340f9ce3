"""The two locks of a keeper's life: one says that an execution is kept, the other that a workspace is taken.

flock(2) locks belong to the open file, so whoever opens the file anew is kept out, in any process, and the kernel gives a lock
back when its holder dies. A keeper holds both; a reader only looks.
"""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

from fable_exec._sys import locks
from fable_exec.privatefiles import OPENING

__all__ = ["give_back", "is_held", "last_touched", "take", "touch"]

_LOOKERS_SECONDS = 0.1
"""Whoever looks shares the lock for microseconds, however many they are."""
_HOLDER_SECONDS = 0.02
"""Whoever has it alone is a keeper, for life; or somebody who removes it or records an end, for milliseconds."""
_PAUSE_SECONDS = 0.0005


def take(path: Path) -> int | None:
    """A descriptor that holds the lock `path`, which is made if need be; None when another holds it.

    Raises OSError: FileNotFoundError when the directory was removed.
    """
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | OPENING, 0o600)
        try:
            is_ours = _lock(fd)
            was_removed = not os.fstat(fd).st_nlink
        except BaseException:
            os.close(fd)
            raise
        if is_ours and not was_removed:
            return fd
        os.close(fd)
        if not was_removed:
            return None
        # Whoever held it removed it with its directory: who comes next locks another one.


def _lock(fd: int) -> bool:
    """Take it, waiting for those who look and shortly for one who holds it; False when another has it."""
    began = time.monotonic()
    while not locks.try_lock(fd):
        is_shared = locks.try_shared_lock(fd)
        if is_shared:
            locks.unlock(fd)
        if time.monotonic() - began >= (_LOOKERS_SECONDS if is_shared else _HOLDER_SECONDS):
            return False
        time.sleep(_PAUSE_SECONDS)
    return True


def give_back(fd: int) -> None:
    """Let go of what `take` gave. A child that was forked meanwhile does not keep the lock."""
    try:
        locks.unlock(fd)
    finally:
        os.close(fd)


def is_held(path: Path) -> bool:
    """Whether somebody holds the lock; False where there is no such file. Looking takes it for a moment, and never waits.

    Raises OSError.
    """
    try:
        fd = os.open(path, os.O_RDONLY | OPENING)  # whoever only looks may be on a file system that is read-only
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return False
        raise
    try:
        if not locks.try_shared_lock(fd):
            return True
        locks.unlock(fd)  # close alone would not do where a child has the descriptor too
        return False
    finally:
        os.close(fd)


def touch(fd: int) -> None:
    """Leave a sign of life: the time of the lock's last change is now."""
    os.utime(fd)


def last_touched(path: Path) -> float | None:
    """When the holder last left a sign of life, in seconds since the epoch; None where there is no such file."""
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:
        return None

"""Read leases, fcntl(2) F_SETLEASE: the one way to learn whether anybody could be writing to a file. Nothing is known elsewhere.

A read lease is refused while any process has the file open for writing, or mapped so that it can write, also after it has closed
its descriptors. Held, it keeps whoever opens the file for writing waiting until the descriptor is closed.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from enum import Enum

if sys.platform == "linux":
    import fcntl

__all__ = ["Lease", "give_lease_back", "take_read_lease"]


class Lease(Enum):
    """What came of it."""

    HELD = "held"
    WRITER = "writer"
    """Somebody has the file open for writing or mapped it."""
    UNKNOWN = "unknown"
    """Another user's file (needs CAP_LEASE), or a file system or a system without leases."""


def take_read_lease(fd: int) -> Lease:
    """Take a read lease on a file that was opened for reading, for as short as can be; closing the descriptor gives it back, too.

    The holder is told by a signal when somebody wants to write. SIGIO, the default, would end a process that has no handler for
    it; SIGURG is ignored by one, so that one is chosen before there is a lease.
    """
    try:
        _take(fd)
    except OSError as error:
        return Lease.WRITER if error.errno == errno.EAGAIN else Lease.UNKNOWN
    return Lease.HELD


def give_lease_back(fd: int) -> None:
    """Let those who wait write; nothing where no lease was held."""
    try:
        _give_back(fd)
    except OSError:
        pass


if sys.platform == "linux":

    def _take(fd: int) -> None:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)

    def _give_back(fd: int) -> None:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)

else:

    def _take(fd: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    def _give_back(fd: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

"""Read leases, fcntl(2) F_SETLEASE: the one way to learn whether anybody could be writing to a file. Nothing is known elsewhere.

A read lease is refused while any process has the file open for writing, or mapped so that it can write, also after it has closed
its descriptors. Held, it keeps whoever opens the file for writing waiting until the descriptor is closed.
"""

from __future__ import annotations

import contextlib
import errno
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
    if sys.platform == "linux":
        try:
            fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            return Lease.HELD
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return Lease.WRITER
    return Lease.UNKNOWN


def give_lease_back(fd: int) -> None:
    """Let those who wait write; nothing where no lease was held."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)

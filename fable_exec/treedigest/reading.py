"""One regular file: opened, looked at, read, hashed, and looked at again.

What is given out is the digest of a content that the file had: a file that changes meanwhile is read again, and is Moving when it
does not stop. Directories are pathguard's; nothing here follows a link or waits for anybody.
"""

from __future__ import annotations

import errno
import os
import stat as stat_bits
from collections.abc import Callable
from hashlib import sha256

from fable_exec._sys.leases import Lease, give_lease_back, take_read_lease
from fable_exec.pathguard.directories import HeldDirectory

__all__ = ["Moving", "Reader"]

SMALL_BYTES = 512 * 1024
"""Read by one call; what is longer, in pieces of this size, which stay in the processor's cache until they are hashed."""
PROGRESS_BYTES = 16 << 20
_TRIES = range(3)
"""Made once: there may be 100 000 files."""
_GONE_OR_SWAPPED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENODEV)


class Moving(Exception):
    """The file `name` is being changed (reason "changed"), somebody could change it unseen ("writer") or perhaps ("unproven")."""

    def __init__(self, name: str, reason: str = "changed") -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason


class Reader:
    """Reads files; counts those of which the system could not tell whether somebody has them open for writing.

    Args:
        leases: take a read lease on each file while it is read, so that nobody can write to it unseen. Whether it was changed
            before or after that is for the caller to see, from its status.
        sealed: a file without one is refused.
    """

    def __init__(self, *, leases: bool = False, sealed: bool = False) -> None:
        self._leases = leases
        self._sealed = sealed
        self.unproven = 0
        self.on_part: Callable[[int], None] = lambda _: None
        """Called now and then within a long file, with the number of its bytes that are read."""

    def digest(self, directory: HeldDirectory, name: str) -> tuple[str, os.stat_result]:
        """The SHA-256 of a regular file in hexadecimal, and what fstat says of it.

        Raises:
            Moving: it is gone, no regular file any more, being changed, or open for writing where leases are taken.
            OSError: it cannot be opened or read.
        """
        for _ in _TRIES:
            try:
                fd = directory.open_to_read(name)
            except OSError as error:
                if error.errno in _GONE_OR_SWAPPED:
                    raise Moving(name) from error
                raise
            try:
                before = os.fstat(fd)
                if not stat_bits.S_ISREG(before.st_mode):
                    raise Moving(name)
                # First the stamps, then the lease: a mapping that is made in between moves them when it is first written to.
                if self._leases:
                    self._lease(fd, name)
                size = before.st_size
                if size <= SMALL_BYTES:
                    data = os.read(fd, size + 1)
                    found = sha256(data).hexdigest() if len(data) == size else None
                else:
                    found = self._hash_long(fd, size, name)
                # A lease keeps everybody from writing; without one, a change has moved the stamps.
                after = before if self._leases else os.fstat(fd)
                if found and after.st_ctime_ns == before.st_ctime_ns and after.st_mtime_ns == before.st_mtime_ns:
                    return found, before
            finally:
                os.close(fd)
        raise Moving(name)

    def _lease(self, fd: int, name: str) -> None:
        lease = take_read_lease(fd)
        if lease is Lease.WRITER:
            raise Moving(name, "writer")
        if lease is Lease.UNKNOWN:
            if self._sealed:
                raise Moving(name, "unproven")
            self.unproven += 1

    def _hash_long(self, fd: int, size: int, name: str) -> str | None:
        """None when there was more or less to read than `size`."""
        digest = sha256()
        total = told = 0
        buffer = memoryview(bytearray(SMALL_BYTES))
        while count := os.readv(fd, [buffer]):
            digest.update(buffer[:count])
            total += count
            if total > size:
                return None
            if total - told >= PROGRESS_BYTES:
                self._let_others(fd, name, total)
                told = total
        return digest.hexdigest() if total == size else None

    def _let_others(self, fd: int, name: str, total: int) -> None:
        """Tell of `total` bytes; meanwhile whoever waits for the lease may write, also who is told."""
        if not self._leases:
            self.on_part(total)
            return
        give_lease_back(fd)
        self.on_part(total)
        if take_read_lease(fd) is Lease.WRITER:
            raise Moving(name, "writer")

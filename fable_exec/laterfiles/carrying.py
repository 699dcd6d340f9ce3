"""Copy one entry with all below it to another directory, by descriptors: nothing is followed, waited for or run.

Commands may change the tree meanwhile, so what arrives is some mixture of what was there, and never anything from elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat

from fable_exec.laterfiles.kept import DIRECTORY
from fable_exec.pathguard.directories import HeldDirectory

__all__ = ["MAX_BYTES", "carry"]

MAX_BYTES = 64 * 1024 * 1024
_MAX_ENTRIES = 10_000
_MAX_DEPTH = 64
_PIECE_BYTES = 1 << 20
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class _Room:
    """What may still be copied."""

    def __init__(self) -> None:
        self.entries, self.bytes = _MAX_ENTRIES, MAX_BYTES

    def use(self, *, entries: int = 0, size: int = 0) -> None:
        self.entries -= entries
        self.bytes -= size
        if min(self.entries, self.bytes) < 0:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))


def carry(source: int, name: str, target: int, new_name: str) -> None:
    """Copy the entry `name` of the directory `source` to `new_name` in the directory `target`; the owner alone may use the copy.

    Links are copied as links, FIFOs and sockets as what they are.

    Raises:
        OSError: the copy is not whole; EFBIG when the tree is too large for one.
    """
    _carry(source, name, target, new_name, _Room(), 0)


def _carry(source: int, name: str, target: int, new_name: str, room: _Room, depth: int) -> None:
    room.use(entries=1)
    mode = os.stat(name, dir_fd=source, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode):
        if depth >= _MAX_DEPTH:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        _carry_directory(source, name, target, new_name, room, depth)
    elif stat.S_ISREG(mode):
        _carry_file(source, name, target, new_name, room)
    elif stat.S_ISLNK(mode):
        os.symlink(os.readlink(name, dir_fd=source), new_name, dir_fd=target)
    elif stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        os.mknod(new_name, stat.S_IFMT(mode) | 0o600, dir_fd=target)
    else:
        raise OSError(errno.EINVAL, "a device")


def _carry_directory(source: int, name: str, target: int, new_name: str, room: _Room, depth: int) -> None:
    HeldDirectory(target).make(new_name, 0o700)
    inside = os.open(name, DIRECTORY, dir_fd=source)
    try:
        copy = os.open(new_name, DIRECTORY, dir_fd=target)
        try:
            for entry in os.listdir(inside):
                _carry(inside, entry, copy, entry, room, depth + 1)
        finally:
            os.close(copy)
    finally:
        os.close(inside)


def _carry_file(source: int, name: str, target: int, new_name: str, room: _Room) -> None:
    reading = os.open(name, _FILE, dir_fd=source)
    try:
        if not stat.S_ISREG(os.fstat(reading).st_mode):
            raise OSError(errno.EAGAIN, "became something else")
        with os.fdopen(HeldDirectory(target).open(new_name, _NEW_FILE), "wb") as copy:
            while piece := os.read(reading, _PIECE_BYTES):
                room.use(size=len(piece))
                copy.write(piece)
    finally:
        os.close(reading)

"""Files in a held directory: opened only if they are private to this user, read and written whole, whatever their bytes mean."""

from __future__ import annotations

import errno
import os

from fable_exec import _sys
from fable_exec.privatefiles import OPENING, directory_fault_of, fault_of
from fable_exec.statefile.documents import BadDocument, Unreadable

__all__ = ["MODE", "close", "open_directory", "open_private", "read_all", "read_from_start", "write_at"]

MODE = 0o600
_PIECE_BYTES = 16 * 1024  # as much as a state is long; for all that it may be the allocator would ask the kernel each time
_NOT_A_FILE = (errno.ELOOP, errno.ENXIO, errno.EISDIR)


def close(fd: int) -> None:
    """Give a descriptor back. What close(2) answers says nothing here: it frees in any case, and what was written is synced."""
    try:
        os.close(fd)
    except OSError:
        pass


def open_directory(path: str) -> int:
    """A descriptor of the directory, the caller's.

    Raises:
        BadDocument: it is a link, or another user may write in it.
        FileNotFoundError, OSError: the kernel's answer.
    """
    if not _sys.HAS_DIRECTORY_HANDLES:
        raise OSError(errno.ENOSYS, "state files need a POSIX system")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:  # also what O_NOFOLLOW with O_DIRECTORY says of a symbolic link
        raise BadDocument(Unreadable.NOT_PRIVATE, "it is not a directory, or a symbolic link to one") from None
    try:
        fault = directory_fault_of(os.fstat(fd))
        if fault is not None:
            raise BadDocument(Unreadable.NOT_PRIVATE, fault.value)
    except BaseException:
        close(fd)
        raise
    return fd


def open_private(name: str, flags: int, dir_fd: int) -> int:
    """A descriptor, the caller's, of a regular file that nobody else can have put there; O_CREAT makes it with MODE.

    Raises:
        BadDocument: there is something else of that name.
        FileNotFoundError, OSError: the kernel's answer.
    """
    try:
        fd = os.open(name, flags | OPENING, MODE, dir_fd=dir_fd)
    except PermissionError:
        fd = _open_closed(name, flags, dir_fd)
    except OSError as error:
        if error.errno not in _NOT_A_FILE:
            raise
        raise BadDocument(Unreadable.NOT_PRIVATE, "it is a symbolic link, or not a regular file") from None
    try:
        status = os.fstat(fd)
        _require_private(status)
        if flags & os.O_CREAT and status.st_mode & MODE != MODE:
            os.fchmod(fd, MODE)  # made just now, and the host's umask took even our own rights
    except BaseException:
        close(fd)
        raise
    return fd


def _open_closed(name: str, flags: int, dir_fd: int) -> int:
    """What O_CREAT has just made under a umask that takes even our own rights, and its maker could not give its mode yet."""
    status = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    _require_private(status)
    if flags & os.O_CREAT and status.st_mode & MODE != MODE:
        os.chmod(name, MODE, dir_fd=dir_fd)
    return os.open(name, flags | OPENING, MODE, dir_fd=dir_fd)


def _require_private(status: os.stat_result) -> None:
    fault = fault_of(status)
    if fault is not None:
        raise BadDocument(Unreadable.NOT_PRIVATE, fault.value)


def read_all(name: str, dir_fd: int, at_most: int) -> bytes | None:
    """The file's bytes up to `at_most`; None when there is none. Raises as `open_private`."""
    try:
        fd = open_private(name, os.O_RDONLY, dir_fd)
    except FileNotFoundError:
        return None
    try:
        return read_from_start(fd, at_most)
    finally:
        close(fd)


def read_from_start(fd: int, at_most: int) -> bytes:
    """The file's bytes up to `at_most`, however little the kernel gives at a time."""
    pieces: list[bytes] = []
    done = 0
    while done < at_most and (piece := os.pread(fd, min(at_most - done, _PIECE_BYTES), done)):
        pieces.append(piece)
        done += len(piece)
    return b"".join(pieces)


def write_at(fd: int, data: bytes, offset: int = 0) -> None:
    """All of `data` from `offset` bytes after the start of the file, however little the kernel takes at a time."""
    done = 0
    while done < len(data):
        taken = os.pwrite(fd, data[done:], offset + done)
        if not taken:
            raise OSError(errno.EIO, "the file takes no more bytes")
        done += taken

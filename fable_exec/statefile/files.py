"""Files in a held directory: read one that is private, replace one whole, wait for the lock. It knows no meaning of their bytes.

A crash at any instant leaves the old or the new content under the name, and at most one temporary file, which the next writer
removes: writers hold the lock, so a temporary file that they find has no owner.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fable_exec import _sys
from fable_exec.privatefiles import directory_fault_of, fault_of, lock_within
from fable_exec.statefile.documents import BadDocument, Unreadable

if sys.platform != "win32":
    import fcntl

__all__ = [
    "held_lock",
    "move_aside",
    "open_directory",
    "open_private",
    "read_all",
    "read_from_start",
    "replace",
    "sweep",
    "write_from_start",
]

MODE = 0o600
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY | os.O_NONBLOCK  # a FIFO must not block
_NOT_A_FILE = (errno.ELOOP, errno.ENXIO, errno.EISDIR)
_TEMPORARY_NAME = re.compile(r"\.state-[0-9a-f]{16}\.tmp\Z")


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
        fd = os.open(name, flags | _FLAGS, MODE, dir_fd=dir_fd)
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
    return os.open(name, flags | _FLAGS, MODE, dir_fd=dir_fd)


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
    while done < at_most and (piece := os.pread(fd, at_most - done, done)):
        pieces.append(piece)
        done += len(piece)
    return b"".join(pieces)


def write_from_start(fd: int, data: bytes) -> None:
    """All of `data` from the start of the file, however little the kernel takes at a time."""
    done = 0
    while done < len(data):
        taken = os.pwrite(fd, data[done:], done)
        if not taken:
            raise OSError(errno.EIO, "the file takes no more bytes")
        done += taken


def replace(name: str, data: bytes, dir_fd: int) -> None:
    """Give `name` the content `data` and the mode MODE, durably. Only under the lock.

    Raises:
        OSError: nothing has changed and nothing is left behind, unless only the last step failed, the fsync of the directory:
            then the content is new, and may be old again after a power cut.
    """
    sweep(dir_fd)
    temporary = f".state-{os.urandom(8).hex()}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, MODE, dir_fd=dir_fd)
    try:
        try:
            os.fchmod(fd, MODE)
            write_from_start(fd, data)
            _sys.sync_file(fd)
        finally:
            close(fd)
        os.rename(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except BaseException:
        _unlink_quietly(temporary, dir_fd)
        raise
    _sys.sync_directory(dir_fd)


def sweep(dir_fd: int) -> None:
    """Remove what writers that died have left. Only under the lock; what cannot be removed now is found again."""
    try:
        names = os.listdir(dir_fd)
    except OSError:
        return
    for name in names:
        if _TEMPORARY_NAME.match(name):
            _unlink_quietly(name, dir_fd)


def move_aside(name: str, new_name: str, dir_fd: int) -> bool:
    """Give the file another name, which nothing has; False when it is not there. Only under the lock. Raises OSError."""
    try:
        _rename_noreplace(name, new_name, dir_fd)
    except FileNotFoundError:
        return False
    return True


def _rename_noreplace(name: str, new_name: str, dir_fd: int) -> None:
    try:
        _sys.rename_noreplace(name, new_name, old_dir_fd=dir_fd, new_dir_fd=dir_fd)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EINVAL):
            raise
        _rename_to_free(
            name, new_name, dir_fd
        )  # kernel or file system cannot promise it; we hold the lock, and the name is random


def _rename_to_free(name: str, new_name: str, dir_fd: int) -> None:
    try:
        os.stat(new_name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(name, new_name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new_name)


def _unlink_quietly(name: str, dir_fd: int) -> None:
    try:
        os.unlink(name, dir_fd=dir_fd)
    except OSError:
        pass


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

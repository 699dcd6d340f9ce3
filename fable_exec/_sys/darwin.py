"""macOS: O_NOFOLLOW_ANY for whole paths, O_SYMLINK handles for single names, renameatx_np, F_FULLFSYNC.

The flag arithmetic is in pure functions with the constants as parameters, so that it is tested on every platform.
Sources: open(2), rename(2) and fcntl(2) of macOS 11 and newer.
"""

from __future__ import annotations

import ctypes
import errno
import os

HAS_DIRECTORY_HANDLES = True

_O_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_O_CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)
_O_NOFOLLOW_ANY: int = getattr(os, "O_NOFOLLOW_ANY", 0)
_O_SYMLINK: int = getattr(os, "O_SYMLINK", 0)
_O_SEARCH: int = getattr(os, "O_SEARCH", 0)
_F_FULLFSYNC = 51
_F_GETPATH = 50
_MAXPATHLEN = 1024
RENAME_EXCL = 4


def beneath_flags(flags: int, *, nofollow: int, nofollow_any: int) -> int:
    """`flags` for one call that follows no link anywhere: O_NOFOLLOW_ANY instead of O_NOFOLLOW (both together are EINVAL).

    With ".." refused lexically this equals openat2's BENEATH with NO_SYMLINKS.
    """
    if not nofollow_any:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return (flags & ~nofollow) | nofollow_any


def handle_flags(*, symlink: int, nonblock: int, noctty: int) -> int:
    """Flags that open a single name without following it and without blocking; O_SYMLINK opens a link itself, so fstat tells."""
    if not symlink:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return os.O_RDONLY | symlink | nonblock | noctty


def open_beneath(path: str, dir_fd: int, flags: int, mode: int = 0, *, no_xdev: bool = False) -> int:
    """Open a whole relative path in one call that follows no link; there is no rule against mounts here (ENOSYS)."""
    if no_xdev:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), path)
    strict = beneath_flags(flags, nofollow=_O_NOFOLLOW, nofollow_any=_O_NOFOLLOW_ANY)
    return os.open(path, strict | _O_CLOEXEC, mode, dir_fd=dir_fd)


def open_handle_beneath(path: str, dir_fd: int, *, no_xdev: bool = False) -> int:
    """A handle on the directory that `path` names; a final link is ELOOP here, where Linux gives a handle on it.

    O_SEARCH, where it exists, also opens a directory that may be searched but not read.
    """
    return open_beneath(path, dir_fd, (_O_SEARCH or os.O_RDONLY) | os.O_NONBLOCK | os.O_NOCTTY, no_xdev=no_xdev)


def open_handle(name: str, dir_fd: int) -> int:
    """A handle on the single `name`, itself when it is a link. A directory that may only be searched needs O_SEARCH."""
    flags = handle_flags(symlink=_O_SYMLINK, nonblock=os.O_NONBLOCK, noctty=os.O_NOCTTY) | _O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=dir_fd)
    except PermissionError:
        if not _O_SEARCH:
            raise
        return os.open(name, _O_SEARCH | _O_NOFOLLOW | _O_CLOEXEC, dir_fd=dir_fd)


def rename_noreplace(old: str, new: str, *, old_dir_fd: int, new_dir_fd: int) -> None:
    """Rename, or FileExistsError when `new` exists."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        call = libc.renameatx_np
    except AttributeError:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), old) from None
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    call.restype = ctypes.c_int
    if call(old_dir_fd, os.fsencode(old), new_dir_fd, os.fsencode(new), RENAME_EXCL) != 0:
        number = ctypes.get_errno()
        error = OSError(number, os.strerror(number), old, None, new)
        error.add_note("renameatx_np failed")
        raise error


def path_of(fd: int) -> str | None:
    """The present path of a directory descriptor, for people and for messages; None where it cannot be told."""
    import fcntl

    try:
        answer = fcntl.fcntl(fd, _F_GETPATH, b"\0" * _MAXPATHLEN)
    except OSError:
        return None
    return os.fsdecode(answer.split(b"\0", 1)[0])


def sync_file(fd: int) -> None:
    """Put the file on the medium: fsync alone stops at the drive's cache here, F_FULLFSYNC does not; not all volumes have it."""
    import fcntl

    try:
        fcntl.fcntl(fd, _F_FULLFSYNC)
    except OSError:
        os.fsync(fd)


def sync_data(fd: int) -> None:
    """As `sync_file`: there is no lesser call that reaches the medium."""
    sync_file(fd)


def reserve_space(fd: int, size_bytes: int) -> None:
    """ENOSYS: F_PREALLOCATE promises blocks, and the file system may still write elsewhere."""
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def start_writeback(fd: int) -> None:
    """Nothing: a hint that this system has no call for."""


def sync_directory(fd: int) -> None:
    """Put the directory's entries on the medium; a file system that has no such thing is taken as it is."""
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise

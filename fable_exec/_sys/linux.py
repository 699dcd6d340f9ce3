"""Linux: openat2 for whole paths, O_PATH handles for single names, renameat2; also the module for other POSIX systems.

Where a constant or call does not exist the function raises OSError(ENOSYS). Sources: openat2(2), open(2), rename(2).
"""

from __future__ import annotations

import errno
import os

from fable_exec._launcher import kernel_fs

HAS_DIRECTORY_HANDLES = True

_O_PATH: int = getattr(os, "O_PATH", 0)
_HANDLE_FLAGS = _O_PATH | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def open_beneath(path: str, dir_fd: int, flags: int, mode: int = 0, *, no_xdev: bool = False) -> int:
    """Open a whole relative path in one call that follows no link and does not leave `dir_fd`; O_CLOEXEC is added."""
    resolve = kernel_fs.RESOLVE_STRICT | (kernel_fs.RESOLVE_NO_XDEV if no_xdev else 0)
    return kernel_fs.openat2(dir_fd, path, flags | os.O_CLOEXEC, mode, resolve)


def open_handle_beneath(path: str, dir_fd: int, *, no_xdev: bool = False) -> int:
    """A handle on what `path` names, itself when it is a link: O_PATH with O_NOFOLLOW accepts a final link, so fstat it."""
    return open_beneath(path, dir_fd, _HANDLE_FLAGS, no_xdev=no_xdev)


def open_handle(name: str, dir_fd: int) -> int:
    """A handle on the single `name`, never followed and never read: no FIFO blocks, search permission suffices."""
    if not _O_PATH:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), name)
    return os.open(name, _HANDLE_FLAGS, dir_fd=dir_fd)


def rename_noreplace(old: str, new: str, *, old_dir_fd: int, new_dir_fd: int) -> None:
    """Rename, or FileExistsError when `new` exists; ENOSYS or EINVAL where kernel or file system cannot promise it."""
    kernel_fs.renameat2(old_dir_fd, old, new_dir_fd, new, kernel_fs.RENAME_NOREPLACE)


def path_of(fd: int) -> str | None:
    """The present path of a directory descriptor, for people and for messages; None where it cannot be told."""
    try:
        path = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return None
    return path if path.startswith("/") else None


def sync_file(fd: int) -> None:
    """Put the file's bytes and metadata on the medium."""
    os.fsync(fd)


def sync_data(fd: int) -> None:
    """Put the file's bytes on the medium, and of its metadata what is needed to read them."""
    getattr(os, "fdatasync", os.fsync)(fd)


def reserve_space(fd: int, size_bytes: int) -> None:
    """Make the file `size_bytes` long at least, such that writing within them cannot fail for want of space.

    What the file has stays; what is added reads as zeros.
    """
    call = getattr(os, "posix_fallocate", None)
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    call(fd, 0, size_bytes)


def start_writeback(fd: int) -> None:
    """Begin to write the file out while the caller does something else; a hint, so a failure is the later sync's to report."""
    try:
        kernel_fs.start_writeback(fd)
    except OSError:
        pass


def sync_directory(fd: int) -> None:
    """Put the directory's entries on the medium; a file system that has no such thing (EINVAL, ENOTSUP) is taken as it is."""
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise

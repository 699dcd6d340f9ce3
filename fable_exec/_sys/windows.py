"""Windows: no directory handles through Python, so every ability of this room that needs one is OSError(ENOSYS).

pathguard then uses its reduced form, which checks paths before it uses them, and says that it is reduced.
"""

from __future__ import annotations

import errno
import os
from typing import NoReturn

HAS_DIRECTORY_HANDLES = False


def _missing(name: str) -> NoReturn:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), name)


def open_beneath(path: str, dir_fd: int, flags: int, mode: int = 0, *, no_xdev: bool = False) -> int:
    """ENOSYS."""
    _missing(path)


def open_handle_beneath(path: str, dir_fd: int, *, no_xdev: bool = False) -> int:
    """ENOSYS."""
    _missing(path)


def open_handle(name: str, dir_fd: int) -> int:
    """ENOSYS."""
    _missing(name)


def rename_noreplace(old: str, new: str, *, old_dir_fd: int, new_dir_fd: int) -> None:
    """ENOSYS: there are no directory descriptors; `os.rename` on whole paths never replaces here."""
    _missing(old)


def path_of(fd: int) -> str | None:
    """None: not told by a descriptor."""
    return None


def sync_file(fd: int) -> None:
    """Put the file on the medium (FlushFileBuffers)."""
    os.fsync(fd)


def sync_data(fd: int) -> None:
    """As `sync_file`."""
    os.fsync(fd)


def reserve_space(fd: int, size_bytes: int) -> None:
    """ENOSYS."""
    _missing("reserve_space")


def start_writeback(fd: int) -> None:
    """Nothing: a hint that this system has no call for."""


def sync_directory(fd: int) -> None:
    """Nothing: NTFS journals its directories and has no call for it."""

"""Whole new content under a name, and old content out of the way; both under the lock of the state.

A crash at any instant leaves the old or the new content under the name, and at most one temporary file, which the next writer
removes: writers hold the lock, so a temporary file that they find has no owner.
"""

from __future__ import annotations

import errno
import os
import re

from fable_exec import _sys
from fable_exec.privatefiles import OPENING
from fable_exec.statefile.opening import MODE, close, write_at

__all__ = ["move_aside", "replace"]

_TEMPORARY_NAME = re.compile(r"\.state-[0-9a-f]{16}\.tmp\Z")


def replace(name: str, data: bytes, dir_fd: int) -> None:
    """Give `name` the content `data` and the mode MODE, durably. Only under the lock.

    Raises:
        OSError: nothing has changed and nothing is left behind, unless only the last step failed, the fsync of the directory:
            then the content is new, and may be old again after a power cut.
    """
    _sweep(dir_fd)
    temporary = f".state-{os.urandom(8).hex()}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPENING, MODE, dir_fd=dir_fd)
    try:
        try:
            os.fchmod(fd, MODE)
            write_at(fd, data)
            _sys.sync_file(fd)
        finally:
            close(fd)
        os.rename(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except BaseException:
        _unlink_quietly(temporary, dir_fd)
        raise
    _sys.sync_directory(dir_fd)


def _sweep(dir_fd: int) -> None:
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

"""Files that only this user can have prepared.

What must be believed later may not lie where another user could have put it, nor under a second name. The open file is judged,
never its name. It says what is wrong with a file; what to do about it is for the room that uses it.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from enum import Enum

__all__ = ["OPENING", "Fault", "NotPrivate", "directory_fault_of", "fault_of", "open_private"]

OPENING = 0 if sys.platform == "win32" else os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY | os.O_NONBLOCK
"""How such a file is opened, beside what for: another user may have put a link, a terminal or a FIFO there."""


class Fault(Enum):
    """Why a file or directory is not private to this user, in words for a person."""

    NOT_REGULAR = "it is not a regular file"
    NOT_DIRECTORY = "it is not a directory"
    NOT_OWN = "it belongs to another user"
    LINKED = "it has more than one link"
    OPEN_TO_OTHERS = "others may open it; its mode must be 0600"
    DIRECTORY_OPEN_TO_OTHERS = "others may enter it; its mode must be 0700"


class NotPrivate(OSError):
    """Another user can have prepared the file: `strerror` is the fault, in words."""


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """A descriptor, the caller's; what O_CREAT makes is this user's alone. Never waits.

    Raises:
        NotPrivate: another user can have prepared it.
        OSError: the kernel's answer; ELOOP for a symbolic link.
    """
    fd = os.open(path, flags | OPENING, 0o600)
    try:
        fault = fault_of(os.fstat(fd))
        if fault is not None:
            raise NotPrivate(errno.EINVAL, fault.value, os.fspath(path))
    except BaseException:
        os.close(fd)
        raise
    return fd


def fault_of(status: os.stat_result) -> Fault | None:
    """What is wrong with an open file, by its fstat(2). Having no name left is no fault: it was replaced a moment ago."""
    if not stat.S_ISREG(status.st_mode):
        return Fault.NOT_REGULAR
    if status.st_uid != os.geteuid():
        return Fault.NOT_OWN
    if status.st_nlink > 1:
        return Fault.LINKED
    return Fault.OPEN_TO_OTHERS if status.st_mode & 0o077 else None


def directory_fault_of(status: os.stat_result) -> Fault | None:
    """The same of an open directory, where the number of links means nothing."""
    if not stat.S_ISDIR(status.st_mode):
        return Fault.NOT_DIRECTORY
    if status.st_uid != os.geteuid():
        return Fault.NOT_OWN
    return Fault.DIRECTORY_OPEN_TO_OTHERS if status.st_mode & 0o077 else None

"""Files that only this user can have prepared.

What must be believed later may not lie where another user could have put it, nor under a second name. The open file is judged,
never its name. It says what is wrong with a file; what to do about it is for the room that uses it.
"""

from __future__ import annotations

import os
import stat
from enum import Enum

__all__ = ["Fault", "directory_fault_of", "fault_of"]


class Fault(Enum):
    """Why a file or directory is not private to this user, in words for a person."""

    NOT_REGULAR = "it is not a regular file"
    NOT_DIRECTORY = "it is not a directory"
    NOT_OWN = "it belongs to another user"
    LINKED = "it has more than one link"
    OPEN_TO_OTHERS = "others may open it; its mode must be 0600"
    DIRECTORY_OPEN_TO_OTHERS = "others may enter it; its mode must be 0700"


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

"""Whether a call would fail whatever confinement says, because of the names it was given: then nothing was refused.

Names, kinds and file systems, as an open machine would judge them; and the file's mode where the kernel asks for that before it
asks confinement, which is when a file that exists is opened. Sources: the error lists of open(2), rename(2), link(2), unlink(2),
rmdir(2), mkdir(2), truncate(2), path_resolution(7).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence

from . import kernel_fs
from .observed_budget import Budget
from .observed_paths import Attempt, Found, find

_LONGEST_NAME = 255  # NAME_MAX of every file system that commands see


def fails_anyway(attempts: Sequence[Attempt], in_sight: Sequence[bool], budget: Budget) -> bool:
    """Whether the call that consists of `attempts` fails by itself.

    Args:
        attempts: in order; a rename or a link has two.
        in_sight: for each, whether what is missing there is missing on the host as well; else nobody here can know.
    """
    if any(len(os.fsencode(name)) > _LONGEST_NAME for attempt in attempts for name in attempt.path.split("/")):
        return True
    known = [attempt for attempt, seen in zip(attempts, in_sight, strict=True) if seen]
    try:
        places = [find(attempt, budget) for attempt in known]
        if any(place is None or not _suits(attempt, place) for attempt, place in zip(known, places, strict=True)):
            return True
        return len(known) == 2 and _cannot_be_paired(known, [place for place in places if place is not None])
    except OSError:
        return True


def _suits(attempt: Attempt, place: Found) -> bool:
    """Whether what is there is what the call needs."""
    directory, slash = stat.S_ISDIR(place.mode), attempt.path.endswith("/")
    if attempt.opens and place.exists and not _may_be_opened(attempt, place):
        return False
    if attempt.operation in ("rename", "rmdir") and _name(attempt) in ("", ".", ".."):
        return False
    return {
        "present": place.exists,
        "file": place.exists and not directory and not slash,
        "regular": stat.S_ISREG(place.mode),
        "directory": directory,
        "empty": directory and _is_empty(place.path),
        "absent": not place.exists,
        "absent file": not place.exists and not slash,
        "either": True,
        "creatable": not directory and not slash,
    }[attempt.needs]


def _may_be_opened(attempt: Attempt, place: Found) -> bool:
    """Whether neither a link that is not to be followed nor the file's mode is in the way."""
    if stat.S_ISLNK(place.mode):
        return False
    wanted = os.R_OK if attempt.reads else os.W_OK
    return kernel_fs.why_no_access(attempt.path, wanted) != errno.EACCES


def _cannot_be_paired(attempts: Sequence[Attempt], places: Sequence[Found]) -> bool:
    """Whether a name cannot be moved, or made another name, from the one place to the other."""
    old, new = places
    if _device(old.path) != _device(new.path):
        return True
    if attempts[0].operation == "link":
        return False
    moves_directory = stat.S_ISDIR(old.mode)
    if old.path != new.path and any(f"{one.path}/".startswith(f"{other.path}/") for one, other in ((old, new), (new, old))):
        return True  # into itself, or over a directory that holds it
    if not moves_directory and any(attempt.path.endswith("/") for attempt in attempts):
        return True
    if not new.exists or attempts[1].needs == "present":  # nothing is replaced
        return False
    return moves_directory != stat.S_ISDIR(new.mode) or (moves_directory and not _is_empty(new.path))


def _name(attempt: Attempt) -> str:
    return os.path.basename(attempt.path.rstrip("/"))


def _device(path: str) -> int:
    """Of the directory: overlay file systems show files under the numbers of the layers below."""
    return os.stat(os.path.dirname(path)).st_dev


def _is_empty(directory: str) -> bool:
    try:
        with os.scandir(directory) as entries:
            return next(entries, None) is None
    except PermissionError:
        return True  # nobody can tell

"""Remove a tree by descriptor, the private directory above all: a link in it is removed, never followed.

Commands fill such a directory, so its tree may be of any depth: a directory that lies too deep is first moved up to the top, and
neither descriptors nor stack run out.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator

from .linuxos import O_PATH

_DEEPEST = 64
_MOST_ROUNDS = 10_000
_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC if hasattr(os, "O_DIRECTORY") else 0


def remove_tree(path: str) -> None:
    """Remove the directory `path` with everything in it, as far as permissions allow; never raises OSError."""
    with contextlib.suppress(OSError):
        parent = os.open(os.path.dirname(path), O_PATH | _DIRECTORY)
        try:
            remove_entry(parent, os.path.basename(path))
        finally:
            os.close(parent)


def remove_entry(parent: int, name: str) -> None:
    """The same of the entry `name` of the directory `parent`, which may also be a file or a link."""
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=parent)
            return
        top = _open_any(parent, name)
        try:
            _empty_top(top)
        finally:
            os.close(top)
        os.rmdir(name, dir_fd=parent)


def _empty_top(top: int) -> None:
    """Each round empties what lies at the top and moves up what lies too deep; it ends when a round has moved nothing."""
    fresh = (f"deep-{number}-{os.getpid()}" for number in itertools.count())
    for _ in range(_MOST_ROUNDS):
        if not _empty(top, top, fresh, 0):
            return


def _empty(directory: int, top: int, fresh: Iterator[str], depth: int) -> bool:
    """Empty `directory`; returns whether something was moved to the top instead of being removed."""
    with os.scandir(directory) as entries:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    moved = False
    for name, is_directory in names:
        with contextlib.suppress(OSError):
            if not is_directory:
                os.unlink(name, dir_fd=directory)
            elif depth >= _DEEPEST:
                os.close(_open_any(directory, name))  # moving a directory takes the right to write in it
                os.rename(name, next(fresh), src_dir_fd=directory, dst_dir_fd=top)
                moved = True
            else:
                moved |= _remove_directory(directory, name, top, fresh, depth)
    return moved


def _remove_directory(parent: int, name: str, top: int, fresh: Iterator[str], depth: int) -> bool:
    directory = _open_any(parent, name)
    try:
        moved = _empty(directory, top, fresh, depth + 1)
    finally:
        os.close(directory)
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=parent)
    return moved


def _open_any(parent: int, name: str) -> int:
    """The directory `name`, made accessible first: a command may have taken its own rights away. Never through a link."""
    place = os.open(name, O_PATH | _DIRECTORY, dir_fd=parent)
    try:
        if os.fstat(place).st_mode & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{place}", 0o700)
        return os.open(".", os.O_RDONLY | _DIRECTORY, dir_fd=place)
    finally:
        os.close(place)

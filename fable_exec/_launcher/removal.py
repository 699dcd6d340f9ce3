"""Remove the private directory by descriptor: a link in it is removed, never followed."""

from __future__ import annotations

import contextlib
import os

from .linuxos import O_PATH


def remove_tree(path: str) -> None:
    """Remove the directory `path` with everything in it, as far as permissions allow; never raises OSError."""
    with contextlib.suppress(OSError):
        parent = os.open(os.path.dirname(path), O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _remove(parent, os.path.basename(path))
        finally:
            os.close(parent)


def _remove(parent: int, name: str) -> None:
    try:
        directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except PermissionError:
        # A command may have taken its own read permission away; the parent is private, so nobody can swap the name.
        os.chmod(name, 0o700, dir_fd=parent, follow_symlinks=True)
        directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.fchmod(directory, 0o700)
        with os.scandir(directory) as entries:
            names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for entry_name, is_directory in names:
            with contextlib.suppress(OSError):
                if is_directory:
                    _remove(directory, entry_name)
                else:
                    os.unlink(entry_name, dir_fd=directory)
    finally:
        os.close(directory)
    os.rmdir(name, dir_fd=parent)

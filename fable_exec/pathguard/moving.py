"""Renaming and removing single names in held directories."""

from __future__ import annotations

import errno
import os
import stat as stat_bits

from fable_exec.pathguard.directories import Directory
from fable_exec.pathguard.facts import fact
from fable_exec.pathguard.reasons import denied

__all__ = ["move_noreplace", "refuse_bad_move", "remove", "remove_directory"]


def move_noreplace(source: Directory, name: str, target: Directory, target_name: str) -> None:
    """Rename, or FileExistsError when the new name is taken, decided by the kernel in one step.

    Without RENAME_NOREPLACE a file is linked and unlinked, which is as strict. A directory cannot be linked: it is renamed
    after a look, and the worst that rename(2) can do in the gap is to replace a directory that is empty.
    """
    try:
        source.rename_noreplace(name, target, target_name)
        return
    except OSError as error:
        # EINVAL: the file system cannot, or a directory would move into itself; the plain rename will tell.
        if error.errno not in (errno.ENOSYS, errno.EINVAL):
            raise
    if stat_bits.S_ISDIR(source.look(name).st_mode):
        _refuse_taken(target, target_name)
        source.rename(name, target, target_name)
        return
    source.link(name, target, target_name)
    source.unlink(name)


def _refuse_taken(directory: Directory, name: str) -> None:
    try:
        directory.look(name)
    except FileNotFoundError:
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)


def refuse_bad_move(
    source: Directory, name: str, text: str, target: Directory, target_name: str, target_text: str, *,
    source_is_directory: bool, target_is_directory: bool,
) -> None:  # fmt: skip
    """What rename(2) would do without a word: take "x/" for a file, or replace a link or a special file."""
    found = source.look(name)
    is_directory = stat_bits.S_ISDIR(found.st_mode)
    if source_is_directory and not is_directory:
        raise fact("not-a-directory", text)
    if target_is_directory and not is_directory:
        raise fact("not-a-directory", target_text)
    try:
        replaced = target.look(target_name)
    except FileNotFoundError:
        return
    if stat_bits.S_ISLNK(replaced.st_mode):
        raise denied("symlink", target_text)
    if not stat_bits.S_ISREG(replaced.st_mode) and not stat_bits.S_ISDIR(replaced.st_mode):
        raise denied("not-regular", target_text)


def remove(directory: Directory, name: str, text: str, *, directory_required: bool) -> None:
    """Unlink a file, a link itself or a special file; never a directory."""
    found = directory.look(name)
    if stat_bits.S_ISDIR(found.st_mode):
        raise fact("is-directory", text)
    if directory_required:
        # unlink("link/") removes the target's name on some systems (GHSA-hp8f-xmx4-4qrg and relatives).
        raise fact("not-a-directory", text)
    directory.unlink(name)


def remove_directory(directory: Directory, name: str, text: str) -> None:
    """Remove an empty directory."""
    found = directory.look(name)
    if stat_bits.S_ISLNK(found.st_mode):
        raise denied("symlink", text)
    if not stat_bits.S_ISDIR(found.st_mode):
        raise fact("not-a-directory", text)
    directory.remove_directory(name)

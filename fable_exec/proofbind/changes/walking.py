"""Every name in a working tree: what stands there, where rules lie, and which directories are repositories of their own.

Ignored files are among them; which those are is decided later. Nothing is read, no link is followed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from enum import Enum

import attrs

from fable_exec.errors import FableExecError
from fable_exec.pathguard import Workspace, WorkspacePath
from fable_exec.proofbind.changes.values import CannotTell, Deadline
from fable_exec.treedigest.repository import open_repository

__all__ = ["Found", "Standing", "walk"]

_GIT = ".git"
_MAX_NAMES = 1_000_000


class Standing(Enum):
    """What stands at a path, as far as git cares."""

    FILE = "file"
    LINK = "link"
    SPECIAL = "special"


@attrs.define
class Found:
    """A working tree by its paths below the top."""

    leaves: dict[str, Standing] = attrs.field(factory=dict)
    directories: set[str] = attrs.field(factory=set)
    repositories: list[str] = attrs.field(factory=list)
    """Directories that are the top of another repository, which nothing tracks; they were not entered."""


def walk(
    workspace: Workspace,
    left_out: str,
    is_tracked_directory: Callable[[str], bool],
    gitlinks: Collection[str],
    deadline: Deadline,
) -> Found:
    """List the tree.

    Args:
        left_out: a name at the top that does not count.
        is_tracked_directory: whether the index lists something below: then it is entered even if it is a repository.
        gitlinks: paths of submodules, which are not entered.

    Raises:
        CannotTell: `unreadable`, `too-large`, `deadline`.
    """
    found = Found()
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        components = waiting.pop()
        deadline.left()
        prefix = "".join(f"{name}/" for name in components)
        for entry in _entries(workspace, components):
            path = prefix + entry.name
            if entry.name == _GIT or path == left_out:
                continue
            if not entry.is_dir(follow_symlinks=False):
                found.leaves[path] = _standing(entry)
                continue
            found.directories.add(path)
            if path in gitlinks:
                continue
            if not is_tracked_directory(path) and _is_repository(workspace, (*components, entry.name)):
                found.repositories.append(path)
            else:
                waiting.append((*components, entry.name))
        if len(found.leaves) + len(found.directories) > _MAX_NAMES:
            raise CannotTell("too-large", f"the working tree has more than {_MAX_NAMES} names")
    return found


def _entries(workspace: Workspace, components: tuple[str, ...]) -> list[os.DirEntry[str]]:
    try:
        descriptor = workspace.open_directory(WorkspacePath(components=components))
        try:
            with os.scandir(descriptor) as listing:
                return list(listing)
        finally:
            os.close(descriptor)
    except (FableExecError, OSError) as error:
        raise CannotTell("unreadable", str(error)) from error


def _standing(entry: os.DirEntry[str]) -> Standing:
    if entry.is_symlink():
        return Standing.LINK
    return Standing.FILE if entry.is_file(follow_symlinks=False) else Standing.SPECIAL


def _is_repository(workspace: Workspace, components: tuple[str, ...]) -> bool:
    try:
        with open_repository(workspace, components) as repository:
            return repository is not None
    except FableExecError as error:
        raise CannotTell("unreadable", str(error)) from error

"""Find the files that run later below one directory, by descriptors, and remember what each directory is.

A directory is watched before it is listed, so that nothing that comes in between is missed. What cannot be looked into is put
down as a gap. It judges nothing, and follows no link and no pointer.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator
from typing import Any

import attrs

from fable_exec.laterfiles.names import (
    Kind,
    LaterFile,
    Names,
    counts_somewhere,
    holds_git_directories,
    is_git_directory,
    is_sample,
    kind_in_git_directory,
    kind_of_name,
)
from fable_exec.laterfiles.watching import TreeWatch
from fable_exec.pathguard import Workspace, WorkspacePath

__all__ = ["Content", "Gap", "Scanner", "content_of", "status_of"]

_MAX_PATH_BYTES = 4096
"""Of a directory. Nothing below a longer one has a name that a tool could open (PATH_MAX), until it is moved, which is seen."""
_MAX_DIRECTORIES = 200_000
_VANISHED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


@attrs.frozen
class Gap:
    """A place below which nothing was looked at, and why; `unreadable` when permission is missing, `deep` when it is too deep.

    `lasting`: another look would not find more.
    """

    components: Names
    reason: str
    unreadable: bool = False
    lasting: bool = False
    deep: bool = False


@attrs.frozen
class Content:
    """What a small file holds; `fault` says why it could not be read as a whole."""

    text: str
    fault: str = ""


_Entry = tuple[str, bool]
"""A name and whether it is a directory."""
_NOTHING: tuple[list[_Entry], list[str]] = ([], [])


class Scanner:
    """Knows which directories are git directories (`git_directories`) and which are later files as a whole (`inside`)."""

    def __init__(self, workspace: Workspace, watch: TreeWatch) -> None:
        self._workspace = workspace
        self._watch = watch
        self.git_directories: set[Names] = set()
        self.inside: dict[Names, Kind] = {}
        self.named: dict[Names, Kind] = {}
        """Directories that count because something names them: a configured directory of hooks, the target of a link."""
        self._unfinished: set[Names] = set()
        """Directories below `modules` and `worktrees` of a git directory that are none yet: names of submodules have slashes."""
        self.entered: set[Names] = set()
        """Directories that were looked into: a change of their mode alone is no reason to look again."""
        self.gaps: list[Gap] = []

    def memory(self) -> dict[str, Any]:
        """What it knows, for `recall` in another process."""
        return {name: value for name, value in vars(self).items() if name not in ("_workspace", "_watch")}

    def recall(self, memory: dict[str, Any]) -> None:
        """Know that instead of what it knew."""
        vars(self).update(memory)

    def file_at(self, directory: Names, name: str, is_directory: bool) -> LaterFile | None:
        """The later file that an entry of a known directory is, or None."""
        components = (*directory, name)
        kind = self.inside.get(directory)
        if kind is not None:
            sample = kind is Kind.GIT_HOOK and is_sample(name) and not is_directory
            return None if sample else LaterFile(components, kind, is_directory, covered=True)
        kind = self.named.get(components)
        if kind is None and directory in self.git_directories:
            kind = kind_in_git_directory(name)
        kind = kind or kind_of_name(name, directory, is_directory=is_directory)
        return None if kind is None else LaterFile(components, kind, is_directory)

    def forget(self, directory: Names) -> None:
        """It is gone: what was known of it does not hold for another of its name."""
        self.git_directories.discard(directory)
        self._unfinished.discard(directory)
        self.entered.discard(directory)
        self.inside.pop(directory, None)

    def names_of(self, inodes: Collection[int]) -> Iterator[Names]:
        """Every entry, in the directories that were looked into, that seems to be one of `inodes`."""
        for directory in sorted(self.entered):
            try:
                descriptor = self._workspace.open_directory(WorkspacePath(components=directory))
            except OSError:
                continue
            try:
                with os.scandir(descriptor) as found:
                    names = [entry.name for entry in found if entry.inode() in inodes]
            except OSError:
                continue
            finally:
                os.close(descriptor)
            yield from ((*directory, name) for name in names)

    def below(self, start: Names) -> Iterator[LaterFile]:
        """Every later file below the directory `start`. What vanishes meanwhile is passed over."""
        waiting, left = [start], _MAX_DIRECTORIES
        while waiting:
            directory = waiting.pop()
            left -= 1
            if left < 0:
                self.gaps.append(Gap(directory, f"more than {_MAX_DIRECTORIES} directories at once", lasting=True))
                return
            candidates, subdirectories = self._entered(directory)
            for name, is_directory in candidates:
                file = self.file_at(directory, name, is_directory)
                if file is not None:
                    yield file
            waiting += [(*directory, name) for name in subdirectories]

    def _entered(self, directory: Names) -> tuple[list[_Entry], list[str]]:
        """Its entries that may count, and its subdirectories, after noting what it is; nothing when it is not searched."""
        if sum(map(len, map(os.fsencode, directory))) + len(directory) > _MAX_PATH_BYTES:
            self.gaps.append(Gap(directory, "it lies too deep to be named", lasting=True, deep=True))
            return _NOTHING
        try:
            descriptor = self._workspace.open_directory(WorkspacePath(components=directory))
        except OSError as error:
            self._not_entered(directory, error)
            return _NOTHING
        try:
            self._watch.add(directory, descriptor)
            entries = _entries(descriptor)
            counting = [entry for entry in entries if counts_somewhere(entry[0])]
            self._remember(directory, descriptor, counting)
        except OSError as error:
            self._not_entered(directory, error)
            return _NOTHING
        finally:
            os.close(descriptor)
        self.entered.add(directory)
        subdirectories = [name for name, is_directory in entries if is_directory]
        if directory in self.inside:
            return entries, subdirectories
        named = [entry for entry in entries if (*directory, entry[0]) in self.named] if self.named else []
        return [*counting, *named], subdirectories

    def _becomes_git_directory(self, directory: Names) -> bool:
        """Whether git would take it for a submodule's or a working tree's directory, once the rest of that one is there."""
        above = directory[:-1]
        return above in self._unfinished or (
            len(directory) > 1 and holds_git_directories(above[-1]) and above[:-1] in self.git_directories
        )

    def _not_entered(self, directory: Names, error: OSError) -> None:
        self.entered.discard(directory)
        if error.errno in _VANISHED or getattr(error, "reason", "") == "symlink":
            return
        unreadable = error.errno in (errno.EACCES, errno.EPERM)
        reason = os.strerror(error.errno) if error.errno else str(getattr(error, "reason", "refused"))
        self.gaps.append(Gap(directory, reason, unreadable))

    def _remember(self, directory: Names, descriptor: int, entries: list[_Entry]) -> None:
        kind = self._kind_inside(directory)
        if kind is not None:
            self.inside[directory] = kind
        else:
            self.inside.pop(directory, None)
        self._unfinished.discard(directory)
        if kind is None and is_git_directory(directory[-1] if directory else "", (entry[0] for entry in entries)):
            self.git_directories.add(directory)
            self._watch.add(directory, descriptor, losses=True)
        elif kind is None and self._becomes_git_directory(directory):
            self.git_directories.add(directory)
            self._unfinished.add(directory)
        else:
            self.git_directories.discard(directory)

    def _kind_inside(self, directory: Names) -> Kind | None:
        """The kind that every entry of `directory` has, or None for a directory in which the names decide."""
        if not directory:
            return self.named.get(directory)
        file = self.file_at(directory[:-1], directory[-1], True)
        if file is None:
            return None
        return Kind.GIT_HOOK if file.kind is Kind.GIT_HOOKS else file.kind


def _entries(descriptor: int) -> list[_Entry]:
    with os.scandir(descriptor) as found:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]


def status_of(workspace: Workspace, components: Names) -> os.stat_result | None:
    """What lstat says of one name; None when it is not there or cannot be reached."""
    try:
        parent = workspace.open_directory(WorkspacePath(components=components[:-1]))
    except OSError:
        return None
    try:
        return os.stat(components[-1], dir_fd=parent, follow_symlinks=False)
    except OSError:
        return None
    finally:
        os.close(parent)


def content_of(workspace: Workspace, components: Names, max_bytes: int) -> Content:
    """A small file as text. Never waits: what is not a plain file is a fault."""
    try:
        found = workspace.read(WorkspacePath(components=components), max_bytes)
    except OSError as error:
        return Content("", str(getattr(error, "reason", error.strerror)))
    if found.truncated:
        return Content("", f"larger than {max_bytes} bytes")
    return Content(found.data.decode("utf-8", "surrogateescape"))

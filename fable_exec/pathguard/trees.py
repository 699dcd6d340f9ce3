"""Whole trees by descriptor: iterate over one, remove one. Nothing follows a link and nothing keeps a path string.

Iterating holds no descriptor between two entries, so an iterator may be dropped at any time.
"""

from __future__ import annotations

import errno
import os
import stat as stat_bits
from collections.abc import Callable, Iterator

import attrs

from fable_exec.errors import FableExecError
from fable_exec.pathguard.directories import Directory
from fable_exec.pathguard.facts import fact
from fable_exec.pathguard.lexical import PathProfile, WorkspacePath
from fable_exec.pathguard.protection import is_protected
from fable_exec.pathguard.reasons import denied
from fable_exec.pathguard.replacing import temporary_name
from fable_exec.pathguard.resolvers import Resolver
from fable_exec.pathguard.values import Entry, FileKind, Listing, TreeEntry

__all__ = ["TreeWalk", "list_directory", "refuse_protected", "remove_tree"]

MAX_HELD_DIRECTORIES = 64
MAX_PASSES = 8


def list_directory(directory: Directory, limit: int) -> Listing:
    """At most `limit` entries. Each is looked at through the held directory: a path would show the outside after a swap."""
    found: list[Entry] = []
    truncated = False
    with directory.names() as entries:
        for entry in entries:
            if len(found) >= limit:
                truncated = True
                break
            try:
                found.append(Entry.of(entry.name, directory.look(entry.name)))
            except FileNotFoundError:
                continue  # removed since
    if not found and directory.is_removed():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    found.sort(key=lambda entry: entry.name)
    return Listing(entries=tuple(found), truncated=truncated)


class TreeWalk:
    """Iterates over a tree, directories before their entries, sorted; gives out what it left out.

    Each directory is resolved anew from the workspace when its turn comes. `truncated` becomes True when `max_entries` or
    `max_depth` (1: only the entries of the start itself) left something out; `skipped` counts directories that could not be
    entered (gone, swapped, not permitted).
    """

    def __init__(
        self,
        list_at: Callable[[WorkspacePath, int], Listing],
        start: WorkspacePath,
        *,
        max_entries: int,
        max_depth: int,
        descend: Callable[[WorkspacePath], bool] | None,
    ) -> None:
        if max_depth < 1:
            raise ValueError(f"max_depth is at least 1, not {max_depth}")
        self._list_at = list_at
        self._start = start
        self._max_entries = max_entries
        self._max_depth = max_depth
        self._descend = descend
        self.truncated = False
        self.skipped = 0

    def __iter__(self) -> Iterator[TreeEntry]:
        self.truncated, self.skipped = False, 0
        left = self._max_entries
        # The first directory is listed at once and not skipped: its error is the caller's.
        waiting = self._entries_of(self._start, self._list_at(self._start, left))
        while waiting:
            if left == 0:
                self.truncated = True
                return
            found = waiting.pop()
            left -= 1
            yield found
            if found.entry.kind is FileKind.DIRECTORY and self._may_enter(found.path):
                waiting += self._try_entries(found.path, left)

    def _may_enter(self, path: WorkspacePath) -> bool:
        if self._descend is not None and not self._descend(path):
            return False
        if len(path.components) - len(self._start.components) >= self._max_depth:
            self.truncated = True
            return False
        return True

    def _try_entries(self, path: WorkspacePath, limit: int) -> list[TreeEntry]:
        try:
            return self._entries_of(path, self._list_at(path, limit))
        except FableExecError:
            self.skipped += 1
            return []

    def _entries_of(self, path: WorkspacePath, listing: Listing) -> list[TreeEntry]:
        self.truncated = self.truncated or listing.truncated
        return [TreeEntry(path=_below(path, entry.name), entry=entry) for entry in reversed(listing.entries)]


def _below(path: WorkspacePath, name: str) -> WorkspacePath:
    """The path of a name that the kernel gave: it exists, so only the structural rules apply."""
    return WorkspacePath(components=(*path.components, name), profile=PathProfile.host())


def refuse_protected(walk: TreeWalk, forms: frozenset[str]) -> None:
    """Raise when the walk meets a protected name; `forms` comes from `protected_forms`."""
    for found in walk:
        if is_protected(found.entry.name, forms):
            raise denied("protected-name", str(found.path))


@attrs.define
class _Level:
    """One directory on the way down: its handle, its name in the level above, and the subdirectories still to do."""

    directory: Directory
    name: str
    waiting: list[str] = attrs.field(factory=list)
    passes: int = 0


def remove_tree(resolver: Resolver, parent: Directory, name: str, text: str) -> int:
    """Remove the directory `name` of `parent` and all below it; return how many names went.

    Links are unlinked, never entered. At most 64 directories are held: one deeper down is first moved up to the top of the
    tree that is going away. Stops at the first thing that cannot be removed.
    """
    _refuse_other_than_directory(parent, name, text)
    levels = [_Level(resolver.directory(parent, (name,), text), name)]
    removed = 0
    try:
        while levels:
            level = levels[-1]
            if not level.waiting:
                removed += _unlink_files(level, text)
            if level.waiting:
                _enter_next(resolver, levels, text)
                continue
            levels.pop()
            level.directory.close()
            (levels[-1].directory if levels else parent).remove_directory(level.name)
            removed += 1
    finally:
        for level in levels:
            level.directory.close()
    return removed


def _refuse_other_than_directory(parent: Directory, name: str, text: str) -> None:
    mode = parent.look(name).st_mode
    if stat_bits.S_ISLNK(mode):
        raise denied("symlink", text)
    if not stat_bits.S_ISDIR(mode):
        raise fact("not-a-directory", text)


def _unlink_files(level: _Level, text: str) -> int:
    """Unlink all that is no directory, note the directories; bounded, since another process may fill it as fast."""
    level.passes += 1
    if level.passes > MAX_PASSES:
        raise fact("not-empty", text)
    with level.directory.names() as entries:
        found = list(entries)
    removed = 0
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            level.waiting.append(entry.name)
        else:
            removed += _unlink_if_there(level, entry.name)
    return removed


def _unlink_if_there(level: _Level, name: str) -> int:
    try:
        level.directory.unlink(name)
        return 1
    except FileNotFoundError:
        return 0
    except (IsADirectoryError, PermissionError):
        if not stat_bits.S_ISDIR(level.directory.look(name).st_mode):
            raise
        level.waiting.append(name)  # swapped for a directory since the listing
        return 0


def _enter_next(resolver: Resolver, levels: list[_Level], text: str) -> None:
    """Go down into one waiting subdirectory, or lift it to the top level when too many are held."""
    level = levels[-1]
    name = level.waiting.pop()
    if len(levels) >= MAX_HELD_DIRECTORIES:
        lifted = temporary_name()
        level.directory.rename(name, levels[0].directory, lifted)
        levels[0].waiting.append(lifted)
        return
    try:
        levels.append(_Level(resolver.directory(level.directory, (name,), text), name))
    except (FileNotFoundError, NotADirectoryError):
        pass  # gone or swapped: the next pass over this level sees what it is now
    except FableExecError as error:
        if getattr(error, "reason", "") != "symlink":
            raise

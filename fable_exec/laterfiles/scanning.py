"""Find the files that run later below one directory, by descriptors, and say which directories were seen."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

import attrs

from fable_exec.laterfiles.gitconfig import hooks_path
from fable_exec.laterfiles.names import Kind, LaterFile, is_git_directory, is_sample, kind_in_git_directory, kind_of_name
from fable_exec.pathguard import FileKind, Workspace, WorkspacePath

__all__ = ["Names", "hooks_among", "identity_of", "read_text", "scan"]

Names = tuple[str, ...]
Seen = Callable[[Names, int, bool], None]
"""Called with a directory's components, a descriptor of it, valid during the call only, and whether it is a git directory."""

_INSIDE_GIT = {"modules", "worktrees"}
"""What of a git directory is searched: objects and refs hold nothing that runs, and are large."""
_MAX_CONFIG_BYTES = 1 << 20
_MAX_DEPTH = 128


@attrs.frozen
class _Entry:
    name: str
    is_directory: bool


def scan(workspace: Workspace, start: Names, seen: Seen) -> Iterator[LaterFile]:
    """Every later file at and below the directory `start`. What vanishes or cannot be read meanwhile is passed over."""
    waiting = [(start, _parent_is_git(start))]
    while waiting:
        components, in_git = waiting.pop()
        try:
            descriptor = workspace.open_directory(WorkspacePath(components=components))
        except OSError:
            continue
        try:
            entries = _entries(descriptor)
            name = components[-1] if components else ""
            git = is_git_directory(name, {entry.name for entry in entries})
            seen(components, descriptor, git)
        except OSError:
            continue
        finally:
            os.close(descriptor)
        yield from _later_files(workspace, components, entries, git, in_git)
        if len(components) < _MAX_DEPTH:
            waiting += [((*components, entry.name), git) for entry in entries if _worth_entering(entry, git, in_git)]


def _parent_is_git(start: Names) -> bool:
    return len(start) > 1 and start[-2].casefold() == ".git"


def _entries(descriptor: int) -> list[_Entry]:
    with os.scandir(descriptor) as found:
        return [_Entry(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]


def _worth_entering(entry: _Entry, in_git: bool, below_git: bool) -> bool:
    if not entry.is_directory:
        return False
    return not in_git or entry.name.casefold() in _INSIDE_GIT or entry.name.casefold() == "hooks"


def _later_files(
    workspace: Workspace, components: Names, entries: list[_Entry], git: bool, below_git: bool
) -> Iterator[LaterFile]:
    if below_git and components[-1].casefold() == "hooks":
        yield from hooks_among(components, [(entry.name, entry.is_directory) for entry in entries])
        return
    for entry in entries:
        kind = kind_in_git_directory(entry.name) if git else kind_of_name(entry.name, is_directory=entry.is_directory)
        if kind is not None:
            yield LaterFile((*components, entry.name), kind, entry.is_directory)
    if git:
        yield from _redirected_hooks(workspace, components)


def hooks_among(directory: Names, entries: Iterable[tuple[str, bool]]) -> Iterator[LaterFile]:
    """The hooks among the (name, is directory) entries of a directory of hooks."""
    for name, is_directory in entries:
        if not is_sample(name):
            yield LaterFile((*directory, name), Kind.GIT_HOOK, is_directory)


def _redirected_hooks(workspace: Workspace, git_directory: Names) -> Iterator[LaterFile]:
    """What core.hooksPath names, when it lies in the workspace: relative to the work tree, git-config(1)."""
    named = hooks_path(read_text(workspace, (*git_directory, "config")))
    if named is None or os.path.isabs(named) or named.startswith("~"):
        return
    tree = git_directory[:-1] if git_directory and git_directory[-1].casefold() == ".git" else git_directory
    target = os.path.normpath("/".join((*tree, named))).split("/")
    if ".." in target or target == ["."]:
        return
    yield LaterFile(tuple(target), Kind.GIT_HOOKS, True)
    try:
        listing = workspace.list(WorkspacePath(components=tuple(target)))
    except OSError:
        return
    yield from hooks_among(tuple(target), [(entry.name, entry.kind is FileKind.DIRECTORY) for entry in listing.entries])


def identity_of(workspace: Workspace, components: Names) -> tuple[int, int] | None:
    """Inode and time of the last change of one name, never followed; None when it is not there."""
    try:
        parent = workspace.open_directory(WorkspacePath(components=components[:-1]))
    except OSError:
        return None
    try:
        found = os.stat(components[-1], dir_fd=parent, follow_symlinks=False)
    except OSError:
        return None
    finally:
        os.close(parent)
    return found.st_ino, found.st_ctime_ns


def read_text(workspace: Workspace, components: Names) -> str:
    """A small file as text; empty when it is missing, too large or not a plain file."""
    try:
        return workspace.read(WorkspacePath(components=components), _MAX_CONFIG_BYTES).data.decode("utf-8", "surrogateescape")
    except OSError:
        return ""

"""The profile loki-v3: what a git worktree tracks and what a walk finds, as the tree digest of Loki receipts has it.

Byte for byte the reference's, with its limits (docs/reference/tree-digests.md). Two things are not taken over: git is not run,
and what a tracked path leads to through a link is read only within the workspace.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Collection, Iterable

import attrs

from fable_exec.errors import PathDenied, PathError, PathNotDirectory, PathNotFound, PathPermission, StateUnreadable
from fable_exec.pathguard import FileKind, Workspace, WorkspacePath
from fable_exec.pathguard.directories import HeldDirectory
from fable_exec.pathguard.facts import translated
from fable_exec.pathguard.reasons import denied
from fable_exec.treedigest.forms import LOKI_EXCLUDED, loki_bare, loki_excluded, loki_gitlink, loki_manifest
from fable_exec.treedigest.gitindex import GITLINK, IndexLine, IndexLines
from fable_exec.treedigest.reading import Moving
from fable_exec.treedigest.repository import open_repository
from fable_exec.treedigest.scanning import Scanned, Scanner, unstable
from fable_exec.treedigest.values import EntryKind
from fable_exec.treedigest.watching import Stamp, stamp_of

__all__ = ["digest_loki", "unreadable_row"]

MAX_NESTED = 32
"""Submodules within submodules."""
_MAX_LINKS = 40
_ANYWHERE = frozenset(LOKI_EXCLUDED)
_GIT = ".git"


def unreadable_row(path: str) -> str:
    return loki_bare(path, EntryKind.UNREADABLE)


@attrs.frozen
class _Worktree:
    """What git knows of the worktree at the scanner's top: paths in its index, what it says of submodules, and its HEAD."""

    tracked: list[str]
    """A path that is being merged is in it more than once."""
    gitlinks: dict[str, list[IndexLine]]
    head_oid: str


def digest_loki(scanner: Scanner, engine_directory: str | None) -> bytes | None:
    """The manifest of the worktree at the scanner's top; None where no worktree has its top there.

    Raises:
        TreeUnstable, PathError, StateUnreadable: see tree_digest.
        PathDenied: a link on the way of a tracked path leads out of the workspace.
    """
    return _manifest(scanner, engine_directory, {}, 0)


def _manifest(scanner: Scanner, engine_directory: str | None, known: dict[tuple[str, ...], str], nested: int) -> bytes | None:
    """The manifest. `known` has the digests of worktrees within, by their tops: indexes may list one again and again."""
    worktree = _worktree(scanner)
    if worktree is None:
        return None
    dropped = frozenset({_GIT, *([engine_directory] if engine_directory else [])})
    paths, rows = _walked(scanner, worktree.gitlinks, dropped, frozenset(loki_excluded(engine_directory)))
    for path in _not_dropped(worktree.gitlinks, dropped):
        paths.append(path)
        rows.append(_gitlink_row(scanner, worktree, path, engine_directory, known, nested))
    looked_up = _looked_up(scanner, _not_dropped(_not_among(worktree.tracked, paths), dropped))
    paths += looked_up
    rows += looked_up.values()
    return loki_manifest(paths, rows, engine_directory)


def _not_among(tracked: list[str], paths: list[str]) -> set[str]:
    """The tracked ones that are not in `paths`. Mostly there is none, and they come by in order: no set of them all is needed."""
    coming = iter(sorted(paths))
    return set() if all(path in coming for path in tracked) else set(tracked).difference(paths)


def _not_dropped(paths: Iterable[str], dropped: frozenset[str]) -> list[str]:
    return [path for path in paths if path.partition("/")[0] not in dropped]


def _worktree(scanner: Scanner) -> _Worktree | None:
    workspace, top = scanner.workspace, scanner.top

    def ask() -> tuple[str, str] | None:
        with open_repository(workspace, top) as repository:
            if repository is None:
                return None
            index = repository.index()
            return repository.head_oid(), "" if index is None else index.sha256

    with open_repository(workspace, top) as repository:
        if repository is None:
            return None
        index, head_oid = repository.index(), repository.head_oid()
        if scanner.watch is not None:
            scanner.watch.note_answer("/".join((*top, _GIT)), ask, (head_oid, "" if index is None else index.sha256))
        lines = repository.lines(index)
    paths = _decoded(lines.paths)
    return _Worktree(paths, _gitlinks(paths, lines) if GITLINK in lines.modes else {}, head_oid)


def _gitlinks(paths: list[str], lines: IndexLines) -> dict[str, list[IndexLine]]:
    """All lines of each path that is a submodule in one of them."""
    linked = {path for path, mode in zip(paths, lines.modes, strict=True) if mode == GITLINK}
    gitlinks: dict[str, list[IndexLine]] = {}
    for path, line in zip(paths, lines, strict=True):
        if path in linked:
            gitlinks.setdefault(path, []).append(line)
    return gitlinks


def _decoded(paths: list[bytes]) -> list[str]:
    """All at once: no path has a NUL in it, and no broken character of one goes on behind it."""
    return b"\0".join(paths).decode("utf-8", "surrogateescape").split("\0") if paths else []


def _walked(
    scanner: Scanner, gitlinks: Collection[str], dropped: frozenset[str], excluded_at_top: frozenset[str]
) -> tuple[list[str], list[str]]:
    """The paths and rows of all that a walk finds: ignored files too, excluded directories and places of submodules not."""
    paths: list[str] = []
    rows: list[str] = []
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        components = waiting.pop()
        left_out = _ANYWHERE if components else _ANYWHERE | excluded_at_top
        scanned = _scan_if_readable(scanner, components, frozenset() if components else dropped)
        if scanned is None:
            continue
        prefix = "".join(f"{name}/" for name in components)
        found, lines = scanned.paths, scanned.lines()
        if gitlinks:  # there may be a file where one was
            lines = [line for path, line in zip(found, lines, strict=True) if path not in gitlinks]
            found = [path for path in found if path not in gitlinks]
        paths += found
        rows += lines
        entered = [name for name in scanned.directories if name not in left_out and prefix + name not in gitlinks]
        waiting += [(*components, name) for name in reversed(entered)]  # the first is next: paths are all but sorted in the end
    return paths, rows


def _scan_if_readable(scanner: Scanner, components: tuple[str, ...], leave_out: frozenset[str]) -> Scanned | None:
    """None for a directory that this user may not list, which the reference does not see at all."""
    try:
        return scanner.scan(components, leave_out)
    except PathPermission:
        if not components:
            raise
    if scanner.watch is not None:
        path = WorkspacePath(components=(*scanner.top, *components))
        scanner.watch.note_answer(str(path), lambda: _may_list(scanner.workspace, path), False)
    return None


def _may_list(workspace: Workspace, path: WorkspacePath) -> bool:
    try:
        os.close(workspace.open_directory(path))
    except PathPermission:
        return False
    return True


def _gitlink_row(
    scanner: Scanner, worktree: _Worktree, path: str, engine_directory: str | None, known: dict[tuple[str, ...], str], nested: int
) -> str:
    scanner.tell()
    if nested == MAX_NESTED:
        raise StateUnreadable(f"submodules nested more than {MAX_NESTED} levels deep at {path!r}", reason="foreign", path=path)
    stages = [(line.stage, line.oid) for line in worktree.gitlinks[path]]
    components = tuple(path.split("/"))
    if not _is_directory(scanner, components):
        return loki_gitlink(path, stages, "", "")
    top = (*scanner.top, *components)
    if top not in known:
        manifest = _manifest(scanner.nested(top), engine_directory, known, nested + 1)
        known[top] = "" if manifest is None else hashlib.sha256(manifest).hexdigest()
    return loki_gitlink(path, stages, _nearest_head(scanner, worktree, components), known[top])


def _is_directory(scanner: Scanner, components: tuple[str, ...]) -> bool:
    path = WorkspacePath(components=(*scanner.top, *components))

    def ask() -> bool:
        try:
            return scanner.workspace.stat(path).kind is FileKind.DIRECTORY
        except (PathError, PathDenied):
            return False

    answer = ask()
    if scanner.watch is not None:
        scanner.watch.note_answer(str(path), ask, answer)
    return answer


def _nearest_head(scanner: Scanner, worktree: _Worktree, components: tuple[str, ...]) -> str:
    """What git says of HEAD in that directory: of the repository there, or else of the nearest one around it."""
    for length in range(len(components), 0, -1):
        with open_repository(scanner.workspace, (*scanner.top, *components[:length])) as repository:
            if repository is not None:
                return repository.head_oid()
    return worktree.head_oid


def _looked_up(scanner: Scanner, paths: list[str]) -> dict[str, str]:
    """The rows of tracked paths that the walk did not meet: missing, or in a directory that is excluded, closed or a link."""
    by_parent: dict[str, list[str]] = {}
    for path in paths:
        parent, _, name = path.rpartition("/")
        by_parent.setdefault(parent, []).append(name)
    rows: dict[str, str] = {}
    for parent, names in by_parent.items():
        ask = functools.partial(_look_up, scanner, parent, names)
        answer = ask()
        if scanner.watch is not None:
            scanner.watch.note_answer("/".join((*scanner.top, parent)), ask, answer)
        rows.update({f"{parent}/{name}" if parent else name: row for name, (row, _) in zip(names, answer, strict=True)})
    return rows


def _look_up(scanner: Scanner, parent: str, names: list[str]) -> list[tuple[str, Stamp | None]]:
    """For each name its row, and what tells this state of it from another."""
    scanner.tell()
    prefix = f"{parent}/" if parent else ""
    components = tuple(filter(None, parent.split("/")))
    try:
        fd = _open_through_links(scanner, (*scanner.top, *components))
    except PathPermission:
        return [(unreadable_row(prefix + name), None) for name in names]
    except (PathNotFound, PathNotDirectory):
        return [(loki_bare(prefix + name, EntryKind.MISSING), None) for name in names]
    try:
        directory = HeldDirectory(fd)
        return [_look_up_one(scanner, directory, parent, name) for name in names]
    finally:
        os.close(fd)


def _look_up_one(scanner: Scanner, directory: HeldDirectory, parent: str, name: str) -> tuple[str, Stamp | None]:
    path = f"{parent}/{name}" if parent else name
    try:
        with translated(path):
            status, row = scanner.leaf(directory, parent, name)
    except Moving as moving:
        raise unstable("/".join((*scanner.top, path)), reason=moving.reason) from moving
    except PathNotFound:
        return loki_bare(path, EntryKind.MISSING), None
    except PathPermission:
        return unreadable_row(path), None
    return row, stamp_of(status)


def _open_through_links(scanner: Scanner, components: tuple[str, ...]) -> int:
    """A directory as a path walk of the system would find it, links followed, but never out of the workspace.

    Raises:
        PathDenied: a link leads out, or there are too many.
    """
    workspace, waiting, links = scanner.workspace, list(reversed(components)), 0
    resolved: list[str] = []
    while waiting:
        name = waiting.pop()
        if name == "..":
            if not resolved:
                raise denied("outside", "/".join(components))
            resolved.pop()
            continue
        path = WorkspacePath(components=(*resolved, name))
        if workspace.stat(path).kind is not FileKind.SYMLINK:
            resolved.append(name)
            continue
        scanner.tell()  # each may make the way longer
        links += 1
        target = workspace.read_link(path)
        if links > _MAX_LINKS or (target.startswith("/") and not _is_below(target, workspace.path)):
            raise denied("outside", "/".join(components))
        if target.startswith("/"):
            resolved, target = [], target[len(workspace.path) :]
        waiting += [part for part in reversed(target.split("/")) if part not in ("", ".")]
    return workspace.open_directory(WorkspacePath(components=tuple(resolved)))


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")

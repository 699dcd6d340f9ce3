"""`diff_stat`: what is compared with what, as `git diff --numstat --no-renames BASE` and `git ls-files --others` would.

Files are told apart by their content, never by what the index says of their time stamps. What git would only know by running a
program, or by trusting the index instead of the tree, has no numbers here.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import attrs

from fable_exec.errors import FableExecError, StateUnreadable
from fable_exec.pathguard import Workspace
from fable_exec.proofbind.changes.bases import Blob, is_below, is_object_id, listing
from fable_exec.proofbind.changes.contents import Content, Directories, Lines, count_lines
from fable_exec.proofbind.changes.copies import Copies, git_copies
from fable_exec.proofbind.changes.objects import ObjectStore, open_objects
from fable_exec.proofbind.changes.values import CannotTell, ChangeStatus, Deadline, DiffStat, FileChange
from fable_exec.proofbind.changes.walking import Found, Standing, walk
from fable_exec.treedigest.gitindex import GITLINK, IndexLine
from fable_exec.treedigest.repository import Repository, open_repository

__all__ = ["DEADLINE_SECONDS", "diff_stat"]

DEADLINE_SECONDS = 120.0
_MAX_RULES_BYTES = 4 << 20
_IGNORE, _ATTRIBUTES = ".gitignore", ".gitattributes"
_ASKED_ATTRIBUTES = ("diff", "filter", "working-tree-encoding")
_Value = TypeVar("_Value")


def diff_stat(
    workspace: Workspace,
    base: str,
    *,
    engine_directory: str = ".loki",
    git: str | None = None,
    scratch: str | os.PathLike[str] | None = None,
    deadline_seconds: float = DEADLINE_SECONDS,
) -> DiffStat:
    """Count what the working tree at the top of `workspace` changed since `base`, untracked files included.

    No program that the workspace names is run, and git sees copies only. Nothing in the workspace is changed.

    Args:
        base: the full object id of a commit, an annotated tag or a tree.
        engine_directory: a name at the top that does not count.
        git: the git program, which is started only where rules or changed files ask for it; None: the system's.
        scratch: where copies are made, and removed again; None: where temporary files go.
        deadline_seconds: for all of it.

    Raises:
        CannotTell: there are no numbers, for the reason it gives.
    """
    if not is_object_id(base):
        raise CannotTell("base-no-id", f"the base {base!r} is not a full object id, so what it means can be changed")
    deadline = Deadline(deadline_seconds)
    hash_kind = "sha1" if len(base) == 40 else "sha256"
    directory = None if scratch is None else os.fspath(scratch)
    try:
        with open_repository(workspace, ()) as repository:
            if repository is None:
                raise CannotTell("no-repository", "no git working tree has its top in the workspace")
            common = repository.common
            with (
                open_objects(common.workspace, common.components) as store,
                git_copies(hash_kind, deadline, directory, git) as copies,
            ):
                return _Comparison(
                    workspace=workspace, repository=repository, store=store, copies=copies, deadline=deadline,
                    hash_kind=hash_kind, left_out=engine_directory,
                    base=_without(engine_directory, listing(store, base, deadline)),
                    index=_staged(repository, engine_directory, len(base)),
                ).stat()  # fmt: skip
    except StateUnreadable as error:
        raise CannotTell("repository-unreadable", str(error)) from error
    except FableExecError as error:
        raise CannotTell("unreadable", str(error)) from error


def _staged(repository: Repository, left_out: str, oid_length: int) -> dict[str, IndexLine]:
    """The index by paths."""
    staged: dict[str, IndexLine] = {}
    for line in repository.lines(repository.index()):
        path = line.path.decode("utf-8", "surrogateescape")
        if not is_below(path):
            raise CannotTell("repository-unreadable", f"the index names {path!a:.200}, which is no path below the top")
        if line.stage:
            raise CannotTell("unmerged", f"{path!r} is in the middle of a merge")
        if len(line.oid) != oid_length:
            raise CannotTell("base-missing", "the repository names objects by another hash function than the base")
        staged[path] = line
    return _without(left_out, staged)


def _without(left_out: str, paths: Mapping[str, _Value]) -> dict[str, _Value]:
    return {path: value for path, value in paths.items() if path.partition("/")[0] != left_out}


@attrs.frozen(kw_only=True)
class _Comparison:
    """One base, one index, one working tree."""

    workspace: Workspace
    repository: Repository
    store: ObjectStore
    copies: Copies
    deadline: Deadline
    hash_kind: str
    left_out: str
    base: Mapping[str, Blob]
    index: Mapping[str, IndexLine]

    def stat(self) -> DiffStat:
        found = self._walked()
        rules = self._put_rules(found)
        untracked = self._untracked(found, rules)
        said_of_untracked = self._attributes(rules, found, untracked)
        changes = list(self._submodules(found))
        added, changed, deleted = self._copy_changed(found)
        rules |= self._put_staged_attributes(found)
        said = self._attributes(rules, found, [*changed, *added], deleted)
        if changed:
            changes += [_changed(*each) for each in self.copies.differences()]
        changes += [_gone(path, self._blob(self.base[path]), said.get(path, {})) for path in deleted]
        with Directories(self.workspace, self.deadline) as directories:
            for path in added:
                changes.append(_new(directories, path, found.leaves[path], said.get(path, {}), is_untracked=False))
            for path in untracked:
                changes.append(_new(directories, path, found.leaves[path], said_of_untracked.get(path, {}), is_untracked=True))
        return DiffStat(tuple(sorted(changes, key=lambda each: (each.path, each.status.value))))

    def _walked(self) -> Found:
        tracked = sorted(self.index)
        gitlinks = {path for path, line in self.index.items() if line.mode == GITLINK}

        def is_tracked_directory(path: str) -> bool:
            at = bisect.bisect_left(tracked, f"{path}/")
            return at < len(tracked) and tracked[at].startswith(f"{path}/")

        return walk(self.workspace, self.left_out, is_tracked_directory, gitlinks, self.deadline)

    # Rules: what is ignored, and what is binary

    def _put_rules(self, found: Found) -> frozenset[str]:
        """Copy all files with rules; return of which kinds there are any."""
        kinds = {name for name in map(_name_of, found.leaves) if name in (_IGNORE, _ATTRIBUTES)}
        for name, kind in (("exclude", _IGNORE), ("attributes", _ATTRIBUTES)):
            shared = self.repository.common.content(f"info/{name}", _MAX_RULES_BYTES)
            if shared is not None:
                self.copies.put_rules(name, shared.data)
                kinds.add(kind)
        with Directories(self.workspace, self.deadline) as directories:
            for path in sorted(path for path, standing in found.leaves.items() if _is_rules(path, standing)):
                content = directories.content(path, Standing.FILE, self.hash_kind)
                if content.data is None or len(content.data) > _MAX_RULES_BYTES:
                    raise CannotTell("too-large", f"{path!r} is longer than {_MAX_RULES_BYTES} bytes")
                self.copies.put(path, content.mode, content.data)
        return frozenset(kinds)

    def _put_staged_attributes(self, found: Found) -> frozenset[str]:
        """Where a file with attributes is gone, git goes by the staged one for what is tracked."""
        kinds: set[str] = set()
        for path, line in self.index.items():
            if _name_of(path) == _ATTRIBUTES and self._is_gone(path, line, found):
                self.copies.put(path, line.mode, self._blob(Blob(line.mode, line.oid)))
                kinds.add(_ATTRIBUTES)
        return frozenset(kinds)

    @staticmethod
    def _is_gone(path: str, line: IndexLine, found: Found) -> bool:
        above = [path[:at] for at in range(len(path)) if path[at] == "/"]
        return line.mode in _FILE_MODES and not any(each in found.leaves for each in (*above, path))

    def _attributes(
        self, rules: frozenset[str], found: Found, paths: list[str], deleted: Sequence[str] = ()
    ) -> dict[str, dict[str, str]]:
        """What the rules say of paths that differ, and of those that are gone; they apply to files only.

        Raises:
            CannotTell: `filtered`: a program would have to be run to know what git compares.
        """
        files = {path for path in paths if found.leaves.get(path) is Standing.FILE}
        gone = {path for path in deleted if self.base[path].mode in _FILE_MODES}
        if _ATTRIBUTES not in rules or not files | gone:
            return {}
        attributes = self.copies.attributes(_ASKED_ATTRIBUTES, sorted(files | gone))
        for path, said in attributes.items():
            if said["filter"] not in _NO_PROGRAM and path in files:
                raise CannotTell(
                    "filtered", f"{path!r} differs, and is compared by what the filter {said['filter']!r} makes of it"
                )
        return attributes

    # Tracked files

    def _copy_changed(self, found: Found) -> tuple[list[str], list[str], list[str]]:
        """Tracked paths that are not in the base, those that are not as in the base, copied for git, and those that are gone."""
        added: list[str] = []
        changed: list[str] = []
        deleted: list[str] = []
        with Directories(self.workspace, self.deadline) as directories:
            for path in sorted(self.base.keys() | self.index.keys()):
                if self._is_gitlink(path):
                    continue
                standing = self._standing(path, found)
                blob = self.base.get(path)
                if blob is None:
                    added += [path] if standing is not None else []
                    continue
                if standing is None:
                    deleted.append(path)
                    continue
                content = directories.content(path, standing, self.hash_kind)
                if (content.mode, content.oid) != blob:
                    self._copy(path, blob, content, standing)
                    changed.append(path)
        return added, changed, deleted

    def _standing(self, path: str, found: Found) -> Standing | None:
        """What git takes for the working tree's content of a tracked path; None: nothing, so it is deleted."""
        line = self.index.get(path)
        if line is None:
            return None
        standing = found.leaves.get(path)
        if standing is Standing.SPECIAL:
            raise CannotTell("special", f"{path!r} is tracked and is neither a file nor a link")
        if standing is None and "s" in line.marks:
            raise CannotTell("sparse", f"{path!r} is left out of the working tree; git takes the index's word for it")
        return standing

    def _copy(self, path: str, blob: Blob, content: Content, standing: Standing) -> None:
        if content.data is None:
            raise CannotTell("too-large", f"{path!r} differs and is too long to be compared line by line")
        self.copies.put_base(path, blob, self._blob(blob))
        if not _is_rules(path, standing):  # those lie there already
            self.copies.put(path, content.mode, content.data)

    def _blob(self, blob: Blob) -> bytes:
        self.deadline.left()
        kind, data = self.store.read(blob.oid)
        if kind != "blob":
            raise CannotTell("objects-damaged", f"object {blob.oid} is a {kind} where a file should be")
        return data

    # Submodules

    def _is_gitlink(self, path: str) -> bool:
        line, blob = self.index.get(path), self.base.get(path)
        return (line is not None and line.mode == GITLINK) or (blob is not None and blob.mode == GITLINK)

    def _submodules(self, found: Found) -> Iterator[FileChange]:
        for path in filter(self._is_gitlink, sorted(self.base.keys() | self.index.keys())):
            before, after = self.base.get(path), self._commit_of(path, found)
            if before is not None and before.mode != GITLINK:
                raise CannotTell("submodule", f"{path!r} was a file and is a submodule now")
            if before is None and after is None:
                continue
            if before is None or after is None or before.oid != after:
                yield FileChange(
                    path=path, insertions=int(after is not None), deletions=int(before is not None), status=ChangeStatus.MODIFIED
                )

    def _commit_of(self, path: str, found: Found) -> str | None:
        """The commit that git takes a submodule to be at; None where it is gone.

        Raises:
            CannotTell: `submodule`: only git, run in it, could tell whether something in it differs.
        """
        line = self.index.get(path)
        if line is None or (path not in found.directories and path not in found.leaves):
            return None
        if line.mode != GITLINK or path in found.leaves:
            raise CannotTell("submodule", f"{path!r} is a submodule in the base or in the index, and not in the other")
        with open_repository(self.workspace, tuple(path.split("/"))) as repository:
            commit = "" if repository is None else repository.head_oid()
        if not commit:
            return line.oid
        if path in self.base and self.base[path].oid == commit:
            raise CannotTell(
                "submodule", f"{path!r} is a submodule at the base's commit; whether it was changed inside is not looked at"
            )
        return commit

    # Untracked files

    def _untracked(self, found: Found, rules: frozenset[str]) -> list[str]:
        """Files and links that git neither tracks nor ignores.

        Raises:
            CannotTell: `nested-repository`: one of them is a repository, of which git tells nothing but its name.
        """
        paths = sorted(
            path for path, standing in found.leaves.items() if path not in self.index and standing is not Standing.SPECIAL
        )
        if (paths or found.repositories) and _IGNORE in rules:
            for path in found.repositories:
                self.copies.put_directory(path)
            ignored = self.copies.ignored([*paths, *found.repositories])
        else:
            ignored = set()
        for path in found.repositories:
            if path not in ignored:
                raise CannotTell("nested-repository", f"{path!r} is a repository of its own that nothing tracks")
        return [path for path in paths if path not in ignored]


_NO_PROGRAM = ("unspecified", "unset", "set")
"""Without a value no filter is named."""
_FILE_MODES = (0o100644, 0o100755)


def _name_of(path: str) -> str:
    return path.rpartition("/")[2]


def _is_rules(path: str, standing: Standing) -> bool:
    return standing is Standing.FILE and _name_of(path) in (_IGNORE, _ATTRIBUTES)


def _changed(path: str, insertions: int | None, deletions: int | None) -> FileChange:
    """The change of a path as git tells it."""
    if insertions is None or deletions is None:
        return FileChange(path=path, insertions=0, deletions=0, status=ChangeStatus.BINARY)
    return FileChange(path=path, insertions=insertions, deletions=deletions, status=ChangeStatus.MODIFIED)


def _gone(path: str, data: bytes, said: Mapping[str, str]) -> FileChange:
    """The change of a path that only the base has: all its lines are deleted."""
    lines = count_lines([data])
    if _is_binary(lines, said):
        return FileChange(path=path, insertions=0, deletions=0, status=ChangeStatus.BINARY)
    return FileChange(path=path, insertions=0, deletions=lines.count, status=ChangeStatus.MODIFIED)


def _is_binary(lines: Lines, said: Mapping[str, str]) -> bool:
    return {"unset": True, "set": False}.get(said.get("diff", ""), lines.looks_binary)


def _new(directories: Directories, path: str, standing: Standing, said: Mapping[str, str], is_untracked: bool) -> FileChange:
    """The change of a path that the base does not have: all its lines are new."""
    if said.get("working-tree-encoding", "unspecified") not in _NO_PROGRAM:
        raise CannotTell("filtered", f"{path!r} is new and kept in another encoding than git compares it in")
    lines = directories.lines(path, standing)
    binary = _is_binary(lines, said)
    if binary:
        status = ChangeStatus.UNTRACKED_BINARY if is_untracked else ChangeStatus.BINARY
    else:
        status = ChangeStatus.UNTRACKED if is_untracked else ChangeStatus.MODIFIED
    return FileChange(path=path, insertions=0 if binary else lines.count, deletions=0, status=status)

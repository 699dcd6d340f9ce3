"""What a planted file may be, and how it is made harmless: moved to quarantine, or a configuration reduced to what cannot run.

`git init`, `git clone` and `git worktree add` are ordinary, so what they write is allowed: sample hooks, safe settings, pointers
that stay inside. Everything else that would run later is not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import attrs

from fable_exec.laterfiles.gitconfig import unsafe_settings, without_unsafe
from fable_exec.laterfiles.names import Kind, LaterFile
from fable_exec.laterfiles.scanning import Names, identity_of, read_text
from fable_exec.pathguard import FileKind, Workspace, WorkspacePath

__all__ = ["Finding", "Judge"]


@attrs.frozen
class Finding:
    """One planted file: `done` is "quarantined", "rewritten", "removed" or "left" (nothing was done)."""

    path: str
    kind: Kind
    done: str
    detail: str


class Judge:
    """Judges one file at a time. `quarantine` is a directory outside the workspace, made when it is first needed."""

    def __init__(self, workspace: Workspace, quarantine: str, *, neutralise: bool) -> None:
        self._workspace = workspace
        self._quarantine = quarantine
        self._neutralise = neutralise
        self._taken = 0

    def judge(self, file: LaterFile) -> Iterator[Finding]:
        """What is wrong with `file`, already dealt with; nothing when it is harmless or gone."""
        if identity_of(self._workspace, file.components) is None:
            return
        if file.kind is Kind.GIT_HOOKS:
            if not self._is(file.components, FileKind.DIRECTORY):
                yield self._move_away(file, "hooks must be a directory")
        elif file.kind is Kind.GIT_CONFIG:
            yield from self._judge_config(file)
        elif file.kind is Kind.GIT_POINTER:
            yield from self._judge_pointer(file)
        else:
            yield self._move_away(file, "would run later")

    def _judge_config(self, file: LaterFile) -> Iterator[Finding]:
        if not self._is(file.components, FileKind.FILE):
            yield self._move_away(file, "a configuration must be a plain file")
            return
        text = read_text(self._workspace, file.components)
        unsafe = unsafe_settings(text)
        if not unsafe:
            return
        detail = "settings that can run something: " + ", ".join(sorted({setting.name for setting in unsafe}))[:300]
        if not self._neutralise:
            yield Finding("/".join(file.components), file.kind, "left", detail)
            return
        self._keep_copy(file, text)
        safe = without_unsafe(text).encode("utf-8", "surrogateescape")
        self._workspace.write_replace(WorkspacePath(components=file.components), safe)
        yield Finding("/".join(file.components), file.kind, "rewritten", detail)

    def _judge_pointer(self, file: LaterFile) -> Iterator[Finding]:
        if not self._is(file.components, FileKind.FILE):
            yield self._move_away(file, "a pointer must be a plain file")
            return
        target = read_text(self._workspace, file.components).strip().removeprefix("gitdir:").strip()
        if not self._stays_inside(file.components[:-1], target):
            yield self._move_away(file, f"points outside the workspace: {target[:200]!r}")

    def _stays_inside(self, directory: Names, target: str) -> bool:
        """Whether `target`, read from a file in `directory`, names a place in the workspace, without links on the way."""
        root = self._workspace.path
        path = os.path.normpath(os.path.join(root, *directory, target))
        if not target or "\0" in target or not (path == root or path.startswith(root + os.sep)):
            return False
        below = os.path.relpath(path, root)
        names = () if below == "." else tuple(below.split(os.sep))
        try:
            self._workspace.stat(WorkspacePath(components=names))
        except FileNotFoundError:
            return True  # nothing there yet; it is judged when it comes
        except OSError:
            return False
        return True

    def _is(self, components: Names, kind: FileKind) -> bool:
        try:
            return self._workspace.stat(WorkspacePath(components=components)).kind is kind
        except OSError:
            return False

    def _move_away(self, file: LaterFile, detail: str) -> Finding:
        path = "/".join(file.components)
        if not self._neutralise:
            return Finding(path, file.kind, "left", detail)
        try:
            parent = self._workspace.open_directory(WorkspacePath(components=file.components[:-1]))
        except OSError:
            return Finding(path, file.kind, "left", f"{detail}; its directory is gone")
        try:
            os.rename(file.components[-1], self._next_place(), src_dir_fd=parent)
            return Finding(path, file.kind, "quarantined", detail)
        except OSError:
            return self._remove(file, detail)
        finally:
            os.close(parent)

    def _remove(self, file: LaterFile, detail: str) -> Finding:
        """Where it cannot be moved (another file system): keep what can be read, and take it away."""
        place = WorkspacePath(components=file.components)
        try:
            if self._is(file.components, FileKind.DIRECTORY):
                self._workspace.remove_tree(place)
            else:
                self._keep_copy(file, read_text(self._workspace, file.components))
                self._workspace.remove(place)
        except OSError as error:
            return Finding(str(place), file.kind, "left", f"{detail}; could not be removed: {error}")
        return Finding(str(place), file.kind, "removed", detail)

    def _keep_copy(self, file: LaterFile, text: str) -> None:
        with open(self._next_place(), "x", encoding="utf-8", errors="surrogateescape") as copy:
            copy.write(text)

    def _next_place(self) -> str:
        os.makedirs(self._quarantine, 0o700, exist_ok=True)
        self._taken += 1
        return os.path.join(self._quarantine, f"{os.getpid()}-{self._taken:06d}")

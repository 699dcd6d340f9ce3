"""What a planted file may be, and how it is made harmless: moved to quarantine, or a configuration reduced to what cannot run.

`git init`, `git clone`, `git submodule add` and `git worktree add` are ordinary, so what they write is allowed: sample hooks,
safe settings, pointers that stay inside. Everything else that would run later is not, whoever made it.
"""

from __future__ import annotations

import errno
import os

import attrs

from fable_exec.laterfiles.gitsafety import Verdict, judge_config
from fable_exec.laterfiles.names import Kind, LaterFile, Names, folded_name
from fable_exec.laterfiles.pointers import (
    MAX_CONFIG_BYTES,
    MAX_POINTER_BYTES,
    git_directory_of,
    is_own_worktree,
    kind_at,
    names_of,
)
from fable_exec.laterfiles.quarantine import Quarantine
from fable_exec.laterfiles.scanning import content_of, status_of
from fable_exec.outcome import display_text
from fable_exec.pathguard import FileKind, Workspace, WorkspacePath

__all__ = ["Finding", "Judge", "finding"]

_MAX_DETAIL = 400
_MAX_PATH = 1_000


@attrs.frozen
class Finding:
    """One planted file, or one place that could not be judged.

    Args:
        done: "quarantined", "rewritten", "renamed" (beside, where the quarantine cannot take it) or "left" (nothing was done).
        kept: the absolute path of what was there: in the quarantine, or beside when "renamed". Empty if nothing is kept.
    """

    path: str
    kind: Kind
    done: str
    detail: str
    kept: str = ""


def finding(file: LaterFile, done: str, detail: str, kept: str = "") -> Finding:
    """A finding about `file`, its text bounded and fit to be shown: a command may have written all of it."""
    path = file.path or "."
    if len(path) > _MAX_PATH:
        path = f"{path[:_MAX_PATH]}... ({len(path)} characters)"
    return Finding(path, file.kind, done, display_text(detail)[:_MAX_DETAIL], kept)


class Judge:
    """Judges one file at a time, and deals with it if it is to `neutralise`."""

    def __init__(self, workspace: Workspace, quarantine: Quarantine, *, neutralise: bool) -> None:
        self._workspace = workspace
        self._quarantine = quarantine
        self._neutralise = neutralise

    def judge(self, file: LaterFile) -> Finding | None:
        """What is wrong with `file`, already dealt with; None when it is harmless or gone."""
        try:
            status = status_of(self._workspace, file.components)
            return None if status is None else self._judged(file, shared=status.st_nlink > 1)
        except OSError as error:
            return finding(file, "left", f"could not be dealt with: {error.strerror}")

    def _judged(self, file: LaterFile, *, shared: bool) -> Finding | None:
        if file.kind is Kind.GIT_HOOKS:
            return None if self._is(file, FileKind.DIRECTORY) else self._move_away(file, "hooks must be a directory")
        if file.kind is Kind.NOT_JUDGED:
            return self._move_away(file, "lies too deep to be looked into")
        if file.kind not in (Kind.GIT_CONFIG, Kind.GIT_POINTER):
            return self._move_away(file, "would run later")
        if not self._is(file, FileKind.FILE):
            return self._move_away(file, "must be a plain file")
        if file.kind is Kind.GIT_CONFIG:
            return self._judge_config(file, shared=shared)
        return self._judge_pointer(file, shared=shared)

    def _is(self, file: LaterFile, kind: FileKind) -> bool:
        return kind_at(self._workspace, file.components) is kind

    # Configurations

    def _judge_config(self, file: LaterFile, *, shared: bool) -> Finding | None:
        content = content_of(self._workspace, file.components, MAX_CONFIG_BYTES)
        if content.fault:
            return self._move_away(file, f"a configuration that cannot be judged: {content.fault}")
        directory = file.components[:-1]
        verdict = judge_config(content.text, lambda value: is_own_worktree(self._workspace, directory, value))
        if verdict.fault:
            return self._rewrite(file, content.text, verdict)
        if shared:
            self._separate(file, content.text)
        return None

    def _rewrite(self, file: LaterFile, text: str, verdict: Verdict) -> Finding:
        if not self._neutralise:
            return finding(file, "left", verdict.fault)
        try:
            kept = self._quarantine.keep_copy(file, verdict.fault, text.encode("utf-8", "surrogateescape"))
            self._write(file, verdict.mended())
        except OSError:
            return self._move_away(file, verdict.fault) or finding(file, "left", f"{verdict.fault}; it vanished meanwhile")
        return finding(file, "rewritten", verdict.fault, kept)

    def _separate(self, file: LaterFile, text: str) -> None:
        """Give a harmless file an inode of its own: another name of it could be written to later."""
        if self._neutralise:
            self._write(file, text)

    def _write(self, file: LaterFile, text: str) -> None:
        path = WorkspacePath(components=file.components)
        self._workspace.write_replace(path, text.encode("utf-8", "surrogateescape"), make_parents=False)

    # Pointers

    def _judge_pointer(self, file: LaterFile, *, shared: bool) -> Finding | None:
        content = content_of(self._workspace, file.components, MAX_POINTER_BYTES)
        fault = content.fault or self._pointer_fault(file.components, content.text.rstrip("\r\n"))
        if fault:
            return self._move_away(file, fault)
        if shared:
            self._separate(file, content.text)
        return None

    def _pointer_fault(self, pointer: Names, target: str) -> str:
        name, directory = folded_name(pointer[-1]), pointer[:-1]
        if name == "commondir":
            # As `git worktree add` writes it; any other would bring in hooks and settings from a place of the command's choice.
            own = len(directory) > 1 and folded_name(directory[-2]) == "worktrees" and target == "../.."
            return "" if own else f"takes hooks and settings from elsewhere: {target!r}"
        if name == "gitdir":
            inside = names_of(self._workspace, directory, target)
            return "" if inside is not None else f"points outside the workspace: {target!r}"
        inside = git_directory_of(self._workspace, pointer)
        return "" if inside is not None else f"does not point at a git directory in the workspace: {target!r}"

    # Dealing with it

    def _move_away(self, file: LaterFile, detail: str) -> Finding | None:
        if not self._neutralise:
            return finding(file, "left", detail)
        try:
            parent = self._workspace.open_directory(WorkspacePath(components=file.components[:-1]))
        except OSError:
            return finding(file, "left", f"{detail}; its directory cannot be entered")
        try:
            taken = self._quarantine.take(parent, file, detail)
        except OSError as error:
            if error.errno == errno.ENOENT and status_of(self._workspace, file.components) is None:
                return None
            return finding(file, "left", f"{detail}; could not be moved away: {error.strerror}")
        finally:
            os.close(parent)
        return finding(file, taken.done, detail, taken.path)

"""Keeps a list of the workspace's later files and deals with those that a command plants.

Ask `before_command` for what to pin, `after_command` for what was found. What the host itself made between two commands is
accepted; what appears while a command runs is judged. One lock; a call that finds nothing new costs one system call.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Literal

from fable_exec.laterfiles.judging import Finding, Judge
from fable_exec.laterfiles.names import Kind, LaterFile, completes_git_directory, kind_in_git_directory, kind_of_name
from fable_exec.laterfiles.scanning import Names, hooks_among, identity_of, scan
from fable_exec.laterfiles.watching import Change, TreeWatch
from fable_exec.pathguard import Workspace

__all__ = ["Finding", "Sentry"]

Action = Literal["neutralise", "report", "fail"]


class Sentry:
    """See the module.

    Args:
        workspace: stays the caller's and must outlive the sentry.
        quarantine: a directory outside the workspace that takes what is moved away.
        action: "neutralise" makes a finding harmless; "report" and "fail" only say that it is there.
    """

    def __init__(self, workspace: Workspace, quarantine: str, action: Action = "neutralise") -> None:
        self._workspace = workspace
        self._judge = Judge(workspace, quarantine, neutralise=action == "neutralise")
        self._watch = TreeWatch()
        self._lock = threading.Lock()
        self._known: dict[Names, LaterFile] = {}
        self._identity: dict[Names, tuple[int, int]] = {}
        self._git_directories: set[Names] = set()
        self._pins: tuple[tuple[str, int], ...] = ()
        self._running = 0
        self._note(self._scan(()))

    @property
    def watching(self) -> str:
        """Why every look is a full one; empty while changes are watched."""
        return self._watch.reason

    def before_command(self) -> tuple[tuple[str, int], ...]:
        """(path, inode) of what exists now and must not be changed by the command that starts. Pair it with `after_command`."""
        with self._lock:
            if self._running == 0:
                self._note(self._appeared())
            self._running += 1
            return self._pins

    def after_command(self) -> tuple[Finding, ...]:
        """What was planted since, already dealt with."""
        with self._lock:
            self._running -= 1
            appeared = {file.components: file for file in self._appeared()}
            findings = tuple(finding for file in appeared.values() for finding in self._judge.judge(file))
            self._note(file for file in appeared.values() if identity_of(self._workspace, file.components) is not None)
            list(self._watch.changes())  # our own mending
            return findings

    def close(self) -> None:
        """Stop watching. Idempotent."""
        self._watch.close()

    def _appeared(self) -> list[LaterFile]:
        changes = list(self._watch.changes())
        if any(change.everything for change in changes):
            return [file for file in self._scan(()) if self._is_news(file)]
        found: list[LaterFile] = []
        for change in dict.fromkeys(changes):
            found += self._looked_up(change)
        return found

    def _looked_up(self, change: Change) -> Iterable[LaterFile]:
        """The later files that one change stands for."""
        if self._holds_hooks(change.directory):
            return hooks_among(change.directory, [(change.name, change.is_directory)])
        components = (*change.directory, change.name)
        in_git = change.directory in self._git_directories
        kind = kind_in_git_directory(change.name) if in_git else kind_of_name(change.name, is_directory=change.is_directory)
        found = [] if kind is None else [LaterFile(components, kind, change.is_directory)]
        if change.is_directory:
            found += self._scan(components)
        if completes_git_directory(change.name) and not in_git:
            found += self._scan(change.directory)
        return found

    def _holds_hooks(self, directory: Names) -> bool:
        known = self._known.get(directory)
        return known is not None and known.kind is Kind.GIT_HOOKS

    def _scan(self, start: Names) -> list[LaterFile]:
        return list(scan(self._workspace, start, self._saw))

    def _saw(self, components: Names, descriptor: int, git: bool) -> None:
        self._watch.add(components, descriptor)
        if git:
            self._git_directories.add(components)

    def _note(self, files: Iterable[LaterFile]) -> None:
        """Take `files` into the list, those that are still there; a hook is covered by its directory's pin."""
        changed = False
        for file in files:
            identity = identity_of(self._workspace, file.components)
            if identity is not None:
                self._known[file.components] = file
                self._identity[file.components] = identity
                changed = True
        if changed:
            self._pins = tuple(
                ("/".join(components), self._identity[components][0])
                for components, file in self._known.items()
                if file.kind is not Kind.GIT_HOOK
            )

    def _is_news(self, file: LaterFile) -> bool:
        return self._identity.get(file.components) != identity_of(self._workspace, file.components)

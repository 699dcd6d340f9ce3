"""File requests and files that run later: what a command could not leave behind, a request cannot write either.

While the policy has such files looked after, a request may read them and nothing else. What commands made themselves may be
removed. With `planted_files = "report"` commands leave them too, so requests may write them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from fable_exec._sys.forks import ProcessLock
from fable_exec.errors import PathDenied, PathError
from fable_exec.pathguard import FileKind, Workspace, WorkspacePath
from fable_exec.pathguard.reasons import shown
from fable_exec.policy import BrokerPolicy

if TYPE_CHECKING:
    from fable_exec.laterfiles import Sentry

__all__ = ["LaterDoor"]

_ADVICE = 'leave it to a person, or set confinement.planted_files = "report" in the policy'


class LaterDoor:
    """Asked before each write of a request. The sentry is posted by the first one: it knows what the host's files lead to."""

    def __init__(self, policy: BrokerPolicy, workspace: Workspace, sentry: Callable[[], Sentry]) -> None:
        confinement = policy.confinement
        self._active = confinement.mode("later_files") != "off" and confinement.planted_files != "report"
        self._workspace = workspace
        self._sentry = sentry
        # Two writes at once must not put together what each of them alone may write.
        self._lock = ProcessLock()

    @contextmanager
    def writing(self, path: WorkspacePath, *, directory: bool = False) -> Iterator[None]:
        """Around a write to `path`, or around making it as a `directory`. Raises PathDenied."""
        with self._lock if self._active and _counts(path) else nullcontext():
            if self._active:
                self._refuse(path, directory=directory)
            yield

    @contextmanager
    def moving(self, source: WorkspacePath, destination: WorkspacePath) -> Iterator[None]:
        """Around a move: neither end may run later, nor anything in what is moved, here or there. Raises PathDenied."""
        with self._lock if self._active else nullcontext():
            if self._active:
                directory = self._is_directory(source)
                self._refuse(source, directory=directory)
                self._refuse(destination, directory=directory)
                if directory:
                    self._refuse_below(source, destination)
            yield

    def removing(self, path: WorkspacePath) -> None:
        """Before `path` is removed, with all below it. Raises PathDenied when the host has something there that runs later."""
        if self._active and not self._workspace.reduced:
            held = self._sentry().held_by_host(path.components)
            if held is not None:
                raise _refusal(held.path, held.kind.value)

    def _refuse(self, path: WorkspacePath, *, directory: bool) -> None:
        from fable_exec.laterfiles import kind_of_path

        kind = kind_of_path(path.components, is_directory=directory)
        if kind is None and not self._workspace.reduced:
            kind = self._sentry().kind_at(path.components, is_directory=directory)
        if kind is not None:
            raise _refusal(str(path), kind.value)
        self._refuse_completing(path)

    def _refuse_completing(self, path: WorkspacePath) -> None:
        """An entry that turns a directory into a git directory makes what else is in it count."""
        from fable_exec.laterfiles import completes_git_directory, is_git_directory

        for depth, name in enumerate(path.components):
            if not completes_git_directory(name):
                continue
            above = WorkspacePath(components=path.components[:depth])
            present = self._names_in(above)
            if not is_git_directory(above.name, present) and is_git_directory(above.name, [*present, name]):
                raise _refusal(str(path), "git-repository", f"it would make {shown(str(above))} a git directory")

    def _refuse_below(self, source: WorkspacePath, destination: WorkspacePath) -> None:
        from fable_exec.laterfiles import kind_of_path

        known = None if self._workspace.reduced else self._sentry().held_below(source.components)
        if known is not None:
            raise _refusal(known.path, known.kind.value)
        walk = self._workspace.iterate(source)
        for found in walk:
            inside = found.path.components[len(source.components) :]
            is_directory = found.entry.kind is FileKind.DIRECTORY
            for place in (found.path.components, (*destination.components, *inside)):
                kind = kind_of_path(place, is_directory=is_directory)
                if kind is not None:
                    raise _refusal("/".join(place), kind.value)
        if walk.truncated or walk.skipped:
            raise _refusal(str(source), "not-judged", "it is too large, or not readable, to prove that it holds no such file")

    def _is_directory(self, path: WorkspacePath) -> bool:
        try:
            return self._workspace.stat(path).kind is FileKind.DIRECTORY
        except (PathError, PathDenied):
            return False  # the act itself says what is wrong

    def _names_in(self, path: WorkspacePath) -> list[str]:
        try:
            return [entry.name for entry in self._workspace.list(path, sys.maxsize).entries]
        except (PathError, PathDenied):
            return []


def _counts(path: WorkspacePath) -> bool:
    from fable_exec.laterfiles import counts_somewhere

    return any(map(counts_somewhere, path.components))


def _refusal(path: str, kind: str, detail: str = "it runs later, outside of any call") -> PathDenied:
    return PathDenied(f"path {shown(path)} refused (runs-later): {detail} ({kind}); {_ADVICE}", reason="runs-later", path=path)

"""The root of a workspace: pinned once, lent to operations, closed when the last one is done.

It finds directories below itself with its resolver; what is done in them is for the modules of the operations. Thread-safe.
"""

from __future__ import annotations

import contextlib
import os
import stat as stat_bits
from collections.abc import Iterator

from fable_exec import _sys
from fable_exec._sys.forks import ProcessLock
from fable_exec.pathguard import making
from fable_exec.pathguard.directories import CheckedDirectory, Directory, HeldDirectory
from fable_exec.pathguard.facts import fact, translated
from fable_exec.pathguard.lexical import WorkspacePath
from fable_exec.pathguard.resolvers import choose_resolver

__all__ = ["Root"]


class Root:
    """A pinned directory with its resolver. Errors of the kernel come out of the context managers as this library's."""

    def __init__(self, text: str, resolver: str, *, no_xdev: bool) -> None:
        """Open the directory at `text`, plainly: links on the way are followed, this once.

        Raises:
            PathError, ConfinementUnavailable: see Workspace.open.
        """
        checked = resolver == "checked" or not _sys.HAS_DIRECTORY_HANDLES
        with translated(text):
            self.directory = _pin(text, no_xdev, checked=checked)
        try:
            self.resolver = choose_resolver(resolver, self.directory, no_xdev=no_xdev)
            status = self.directory.status()
        except BaseException:
            self.directory.close()
            raise
        self.identity = (status.st_dev, status.st_ino)
        self.path = _path_now(self.directory) or os.path.abspath(text)
        self._given_path = os.path.abspath(text)
        self._lock = ProcessLock()
        self._users = 0
        self.closed = False

    def close(self) -> None:
        """Close the directory, or have the last user do it. More than once is harmless."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            idle = self._users == 0
        if idle:
            self.directory.close()

    def check(self) -> None:
        """Raise PathNotFound if the directory was removed (workspace-gone), or has left its path (workspace-moved)."""
        with self._lock:
            if self.closed:
                raise ValueError("the workspace is closed")
            removed = self.directory.is_removed()
        if removed:
            raise fact("workspace-gone", ".")
        if self._is_elsewhere():
            raise fact("workspace-moved", ".")

    def _is_elsewhere(self) -> bool:
        """Whether the path that was given leads to nothing, or to another directory, by now. Where it cannot be told: no."""
        try:
            there = os.stat(self._given_path)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False
        return (there.st_dev, there.st_ino) != self.identity

    @contextlib.contextmanager
    def lent(self, path: WorkspacePath) -> Iterator[Directory]:
        """The root, which cannot be closed meanwhile: a closed number could already name another file.

        Raises:
            PathNotFound: it was removed, and would look like an empty directory.
        """
        self._begin_use()
        try:
            with translated(str(path)):
                if self.directory.is_removed():
                    raise fact("workspace-gone", str(path))
                yield self.directory
        finally:
            self._end_use()

    def _begin_use(self) -> None:
        with self._lock:
            if self.closed:
                raise ValueError("the workspace is closed")
            self._users += 1

    def _end_use(self) -> None:
        with self._lock:
            self._users -= 1
            last = self.closed and self._users == 0
        if last:
            self.directory.close()

    @contextlib.contextmanager
    def directory_at(self, path: WorkspacePath, names: tuple[str, ...] | None = None) -> Iterator[Directory]:
        """The directory at `names`, by default those of `path`; errors are about `path`."""
        with self.lent(path) as root:
            directory = self.resolver.directory(root, path.components if names is None else names, str(path))
            try:
                yield directory
            finally:
                if directory is not root:
                    directory.close()

    def listable(self, path: WorkspacePath) -> int | None:
        """A descriptor of the directory at `path` that can be listed; None where `directory_at` has to say why not."""
        if not path.components:
            return None
        self._begin_use()
        try:
            return self.resolver.listable(self.directory, path.components)  # nothing is found below one that was removed
        finally:
            self._end_use()

    def parent_of(self, path: WorkspacePath) -> contextlib.AbstractContextManager[Directory]:
        """The directory that holds the last name of `path`."""
        return self.directory_at(path, path.components[:-1])

    @contextlib.contextmanager
    def parent_to_write(self, path: WorkspacePath, make_parents: bool) -> Iterator[Directory]:
        """The parent, made if it is missing and wanted; what was made goes again when the body fails."""
        names = path.components[:-1]
        with self.lent(path) as root:
            made: tuple[int, ...] = ()
            try:
                parent = self.resolver.directory(root, names, str(path))
            except FileNotFoundError:
                if not make_parents:
                    raise
                parent, made = making.make_directories(
                    self.resolver, root, names, str(path), making.NEW_DIRECTORY_MODE, durable=True
                )
            try:
                yield parent
            except BaseException:
                making.unmake_directories(self.resolver, root, names, made, str(path))
                raise
            finally:
                if parent is not root:
                    parent.close()


def _pin(text: str, no_xdev: bool, *, checked: bool) -> Directory:
    if checked:
        real = os.path.realpath(text, strict=True)
        if not stat_bits.S_ISDIR(os.lstat(real).st_mode):
            raise fact("not-a-directory", text)
        return CheckedDirectory(real)
    fd = os.open(text, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return HeldDirectory(fd, no_xdev=no_xdev, readable=True)


def _path_now(directory: Directory) -> str | None:
    return _sys.path_of(directory.fd) if isinstance(directory, HeldDirectory) else None

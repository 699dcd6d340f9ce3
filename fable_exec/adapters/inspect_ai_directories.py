"""The directory of one inspect-ai sample: made for it, locked while it is in use, and gone with it.

The lock tells a directory that a killed evaluation left from one that is in use; the kernel gives it back with the process.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator

import attrs

from fable_exec._sys.locks import try_lock_if_possible
from fable_exec.adapters.owned import remove_directory

__all__ = ["PREFIX", "SampleDirectory"]

PREFIX = "fable-exec-inspect-"
_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_TRIES = 100


@attrs.frozen
class SampleDirectory:
    """An empty directory of this user's alone. Whoever made it removes it; dropped, it stays, and stays locked."""

    path: str
    _lock: int = attrs.field(repr=False)

    @classmethod
    def make(cls) -> SampleDirectory:
        """A new one, among the host's temporary files. Raises OSError."""
        for _ in range(_TRIES):
            path = os.path.realpath(tempfile.mkdtemp(prefix=PREFIX))
            made = cls._taken(path)
            if made is not None:
                return made
        raise FileExistsError("no directory for the sample: each one was cleaned up while it was made")

    @classmethod
    def left(cls, name: str | None = None) -> Iterator[SampleDirectory]:
        """Those that nobody uses any more, each the caller's to remove.

        Args:
            name: only the one of this name.
        """
        root = _root()
        for found in sorted(os.listdir(root)):
            if found.startswith(PREFIX) and name in (None, found):
                taken = cls._taken(os.path.join(root, found))
                if taken is not None:
                    yield taken

    @staticmethod
    def pattern() -> str:
        """Where all of them are, as a shell has it."""
        return os.path.join(_root(), f"{PREFIX}*")

    @property
    def name(self) -> str:
        """What it is called for `left`."""
        return os.path.basename(self.path)

    def remove(self) -> None:
        """Remove it with all that commands put there, through no link, and what they took their own rights to away."""
        try:
            remove_directory(self.path)
        finally:
            os.close(self._lock)

    @classmethod
    def _taken(cls, path: str) -> SampleDirectory | None:
        """The directory, locked; None if somebody uses it, or it is not there or not this user's."""
        try:
            lock = os.open(path, os.O_RDONLY | _DIRECTORY)
        except OSError:
            return None
        try:
            if _is_own(lock) and try_lock_if_possible(lock) and _is_at(lock, path):
                return cls(path, os.dup(lock))
            return None
        finally:
            os.close(lock)


def _root() -> str:
    return os.path.realpath(tempfile.gettempdir())


def _is_own(directory: int) -> bool:
    status = os.fstat(directory)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _is_at(directory: int, path: str) -> bool:
    """Whether the path still leads there: who had the lock before us may have removed it."""
    try:
        found, ours = os.lstat(path), os.fstat(directory)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)

"""Take one name out of the workspace without losing it: into a directory outside, or else under a harmless name."""

from __future__ import annotations

import errno
import os
import stat

__all__ = ["Quarantine", "Taken", "open_up"]

_CLOSED = (errno.EACCES, errno.EPERM)
_NAME_BYTES = 100
_HANDLE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC


class Taken:
    """How it went: `done` is "quarantined" or "renamed", `name` what it is called now, in its new place."""

    def __init__(self, done: str, name: str) -> None:
        self.done, self.name = done, name


class Quarantine:
    """A directory outside the workspace, made (0700) when it is first needed. Nothing in it is ever overwritten."""

    def __init__(self, path: str, workspace_path: str) -> None:
        self.path = os.path.realpath(path)
        if os.path.commonpath((self.path, workspace_path)) == workspace_path:
            raise ValueError(f"the quarantine must lie outside the workspace, not at {path!r}")

    def take(self, parent: int, name: str) -> Taken:
        """Move the entry `name` of the directory `parent` away.

        A directory that a command made unchangeable is opened up first. Raises OSError when it stays where it is.
        """
        try:
            return self._moved(parent, name)
        except OSError as error:
            if error.errno not in _CLOSED:
                raise
        open_up(parent, ".")
        open_up(parent, name)
        return self._moved(parent, name)

    def keep_copy(self, name: str, data: bytes) -> str:
        """Keep what a file held before it is rewritten; returns the copy's name."""
        place = self._new_name(name)
        with open(os.path.join(self._directory(), place), "xb") as copy:
            copy.write(data)
        return place

    def _moved(self, parent: int, name: str) -> Taken:
        place = self._new_name(name)
        try:
            os.rename(name, os.path.join(self._directory(), place), src_dir_fd=parent)
            return Taken("quarantined", place)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        # Another file system. No tool looks for this name, and git takes a hook called so for a sample.
        place = f"{_short(name)}.{os.urandom(6).hex()}.quarantined.sample"
        os.rename(name, place, src_dir_fd=parent, dst_dir_fd=parent)
        return Taken("renamed", place)

    def _directory(self) -> str:
        os.makedirs(self.path, 0o700, exist_ok=True)
        return self.path

    @staticmethod
    def _new_name(name: str) -> str:
        return f"{os.urandom(8).hex()}-{_short(name)}"


def _short(name: str) -> str:
    return os.fsdecode(os.fsencode(name)[:_NAME_BYTES])


def open_up(parent: int, name: str) -> None:
    """Give the owner all rights on a directory; nothing happens to a link or a file."""
    try:
        place = os.open(name, _HANDLE, dir_fd=parent)
    except OSError:
        return
    try:
        # The descriptor of a directory without read permission can only be changed by this way (open(2), O_PATH).
        path = f"/proc/self/fd/{place}"
        os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | 0o700)
    except OSError:
        pass
    finally:
        os.close(place)

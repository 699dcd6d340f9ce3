"""Take planted files away, and keep them in a private directory of the user that outlives the broker and is bounded.

One directory for each item, its name a time: in it what was `planted`, under that name whatever its own was, and `about.json`.
The oldest items go first. What runs later leaves the workspace, or at least its name, in one step; the rest comes after.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import time
from collections.abc import Iterator

import attrs

from fable_exec._launcher.removal import remove_entry, remove_tree
from fable_exec._sys.locks import try_lock_if_possible
from fable_exec.laterfiles.carrying import carry
from fable_exec.laterfiles.kept import ABOUT, DIRECTORY, is_outside, items_in, open_own, size_of
from fable_exec.laterfiles.names import LaterFile
from fable_exec.pathguard.directories import HeldDirectory

__all__ = ["Quarantine", "Taken", "is_set_aside", "open_up"]

MAX_ITEMS = 1_000
MAX_BYTES = 256 * 1024 * 1024
"""Of all items together; the newest one is kept even if it alone is larger."""
_CLOSED = (errno.EACCES, errno.EPERM)
_NAME_BYTES = 100
_HANDLE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_PLANTED = "planted"
_SET_ASIDE = ".quarantined.sample"


@attrs.frozen
class Taken:
    """How it went: `done` is "quarantined" or "renamed", `path` where it is now, absolute."""

    done: str
    path: str


class Quarantine:
    """The directory `path`, made (0700) when it is first needed. Nothing in it is ever overwritten.

    Raises:
        ValueError: it lies inside the workspace.
    """

    def __init__(self, path: str, workspace_path: str) -> None:
        if not is_outside(path, workspace_path):
            raise ValueError(f"the quarantine must lie outside the workspace, not at {path!r}")
        self.path = os.path.realpath(path)
        self._workspace_path = workspace_path
        self._grown = False

    def take(self, parent: int, file: LaterFile, why: str) -> Taken:
        """Move `file`, an entry of the directory `parent`, away.

        A directory that a command made unchangeable is opened up first. Raises OSError when it stays where it is.
        """
        try:
            return self._moved(parent, file, why)
        except OSError as error:
            if error.errno not in _CLOSED:
                raise
        open_up(parent, ".")
        open_up(parent, file.components[-1])
        return self._moved(parent, file, why, opened=True)

    def keep_copy(self, file: LaterFile, why: str, data: bytes) -> str:
        """Keep what a file held before it is rewritten; returns the copy's path. Raises OSError when that cannot be."""
        with self._new_item() as (item, path):
            with os.fdopen(HeldDirectory(item).open(_PLANTED, _NEW_FILE), "wb") as copy:
                copy.write(data)
            self._describe(item, file, why)
            return path

    def trim(self) -> None:
        """Remove the oldest items if something was added and there is too much now. Never raises OSError."""
        if not self._grown:
            return
        self._grown = False
        with contextlib.suppress(OSError), self._opened() as directory:
            if not try_lock_if_possible(directory):
                return  # another one is at it, and sees what we added
            left_items, left_bytes = MAX_ITEMS, MAX_BYTES
            for position, (name, size) in enumerate(items_in(directory)):
                left_items, left_bytes = left_items - 1, left_bytes - size
                if position and min(left_items, left_bytes) < 0:
                    remove_tree(os.path.join(self.path, name))

    def _moved(self, parent: int, file: LaterFile, why: str, *, opened: bool = False) -> Taken:
        name = file.components[-1]
        try:
            with self._new_item() as (item, path):
                os.rename(name, _PLANTED, src_dir_fd=parent, dst_dir_fd=item)
                with contextlib.suppress(OSError):
                    self._describe(item, file, why)
                return Taken("quarantined", path)
        except OSError as error:
            if not _is_there(parent, name) or (error.errno in _CLOSED and not opened):
                raise
        # Another file system, or no quarantine. No tool looks for this name, and git takes a hook called so for a sample.
        beside = f"{_short(name)}.{os.urandom(6).hex()}{_SET_ASIDE}"
        os.rename(name, beside, src_dir_fd=parent, dst_dir_fd=parent)
        return self._carried(parent, beside, file, why)

    def _carried(self, parent: int, beside: str, file: LaterFile, why: str) -> Taken:
        """What was renamed beside, taken to another file system if it is of a size that can be copied."""
        renamed = Taken("renamed", os.path.join(self._workspace_path, *file.components[:-1], beside))
        try:
            with self._new_item() as (item, path):
                carry(parent, beside, item, _PLANTED)
                self._describe(item, file, why)
        except OSError:
            return renamed
        remove_entry(parent, beside)
        return renamed if _is_there(parent, beside) else Taken("quarantined", path)

    def _describe(self, item: int, file: LaterFile, why: str) -> None:
        about = {
            "workspace": self._workspace_path,
            "path": file.path,
            "kind": file.kind.value,
            "why": why,
            "bytes": size_of(item),
        }
        with os.fdopen(HeldDirectory(item).open(ABOUT, _NEW_FILE), "w", encoding="ascii") as text:
            json.dump(about, text)

    @contextlib.contextmanager
    def _new_item(self) -> Iterator[tuple[int, str]]:
        """A new item's directory, and the path that what is planted will have in it; gone again when the body fails."""
        now = time.time_ns()
        name = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(now // 10**9))}.{now % 10**9:09}Z-{os.urandom(4).hex()}"
        with self._opened() as directory:
            HeldDirectory(directory).make(name, 0o700)
            try:
                item = os.open(name, DIRECTORY, dir_fd=directory)
                try:
                    yield item, os.path.join(self.path, name, _PLANTED)
                finally:
                    os.close(item)
            except OSError:
                remove_entry(directory, name)
                raise
        self._grown = True

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        above = os.path.dirname(self.path)
        _make_private(above)
        holder = open_own(above, None)
        try:
            with contextlib.suppress(FileExistsError):
                HeldDirectory(holder).make(os.path.basename(self.path), 0o700)
            directory = open_own(os.path.basename(self.path), holder)
        finally:
            os.close(holder)
        try:
            if stat.S_IMODE(os.fstat(directory).st_mode) != 0o700:
                os.fchmod(directory, 0o700)
            yield directory
        finally:
            os.close(directory)


def _make_private(path: str) -> None:
    """Make `path` and what is missing above it for this user alone, whatever the umask: the XDG base directories want 0700."""
    if os.path.isdir(path):
        return
    _make_private(os.path.dirname(path))
    parent = os.open(os.path.dirname(path), _HANDLE)
    try:
        with contextlib.suppress(FileExistsError):
            HeldDirectory(parent).make(os.path.basename(path), 0o700)
    finally:
        os.close(parent)


def _is_there(parent: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return False
    return True


def _short(name: str) -> str:
    return os.fsdecode(os.fsencode(name)[:_NAME_BYTES])


def is_set_aside(name: str) -> bool:
    """Whether an entry was renamed in its place, because it could not be taken away."""
    return name.endswith(_SET_ASIDE)


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

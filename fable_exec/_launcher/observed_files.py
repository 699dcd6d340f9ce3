"""Whether confinement refuses what a command wants to do with a path, judged from the plan and the mounts, for reports only.

The kernel decides by itself, and later: a path may mean something else by then. So nothing here may ever be an answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .linuxos import O_PATH

METADATA = frozenset({"chmod", "chown", "utime", "setxattr", "removexattr"})
_QUIET = ("/dev/tty", "/dev/fd/", "/dev/std", "/proc/self/", "/proc/thread-self/")
"""Of the process itself, or of a terminal that no command has: what becomes of these is not confinement's doing."""
_REMOVALS = frozenset({"unlink", "rmdir", "rename"})
_NOT_THERE = (FileNotFoundError, NotADirectoryError)
_BYTE_CODE = "/__pycache__"
"""An interpreter tries to keep its byte code beside a module and goes on without a word when it cannot (PEP 3147)."""


class Attempt(NamedTuple):
    """What is about to be done with one path.

    Args:
        operation: the word for reports.
        path: absolute, as the command's own view has it.
        needs: "present" or "absent": what the kernel complains of first when it is otherwise; "either".
        follows: whether a link at the end of the path is followed.
        reads: it changes nothing.
    """

    operation: str
    path: str
    needs: str
    follows: bool
    reads: bool = False


class _Found(NamedTuple):
    """Where a path leads. `read_only` is the mount's, of the file itself or of the directory it would be made in.

    `path` and `directory` are empty where nobody wanted them: most calls change what may be changed, and wait for this.
    """

    path: str
    exists: bool
    read_only: bool
    directory: str


class MountedView:
    """In a root of its own, which holds only what was mounted there: mounts decide.

    Args:
        workspace, writable: where it is, and whether commands may change it.
        pinned: whether a path below the workspace, or one that it leads to, is pinned.
        stand_ins: private directories where the host has others of the same name.
    """

    def __init__(self, workspace: str, writable: bool, pinned: Callable[[str], bool], stand_ins: Iterable[str]) -> None:
        self._workspace, self._writable, self._pinned = workspace, writable, pinned
        self._stand_ins = frozenset(stand_ins)
        self._root_device = os.stat("/").st_dev

    def refuses(self, attempt: Attempt) -> tuple[str, str] | None:
        """(protection, path) when this view stands in the way. Raises OSError when that cannot be told."""
        found = _find(attempt, by_path=attempt.needs == "present" or attempt.operation == "rename")
        if found is None:
            path = os.path.normpath(attempt.path)
            return (_outside(attempt), path) if self._is_out_of_sight(path) else None
        if not found.path:
            return None  # nothing but a read-only mount would stand in the way
        if not found.exists and self._stands_for_the_hosts(found.directory, attempt):
            return _outside(attempt), found.path
        if attempt.reads or not _gets_that_far(attempt, found):
            return None
        if _is_below(found.path, self._workspace):
            return self._within(attempt, found)
        return (_outside(attempt), found.path) if found.read_only else None

    def _within(self, attempt: Attempt, found: _Found) -> tuple[str, str] | None:
        if not self._writable:
            return ("workspace_writes", found.path) if found.read_only else None
        held = found.read_only or attempt.operation == "rename"  # what leads to a pin cannot be moved away either
        return ("later_files", found.path) if held and self._pinned(found.path) else None

    def _is_out_of_sight(self, path: str) -> bool:
        """Whether the nearest directory that exists is of the view's own making: below it the host may have anything."""
        while path != "/":
            path = os.path.dirname(path)
            if os.path.isdir(path):
                return path in self._stand_ins or os.stat(path).st_dev == self._root_device
        return True

    def _stands_for_the_hosts(self, directory: str, attempt: Attempt) -> bool:
        """Whether what is missing in `directory` may well be in the host's. In a stand-in things can be made all the same."""
        if directory in self._stand_ins:
            return attempt.needs == "present" and attempt.operation not in _REMOVALS
        return os.stat(directory).st_dev == self._root_device


class ListedView:
    """In the host's own root, where Landlock lets through what is listed.

    Args:
        writable, readable: what the rules list; hidden: what they leave out of that.
    """

    def __init__(self, workspace: str, writable: list[str], readable: list[str], hidden: list[str]) -> None:
        self._workspace = workspace
        self._writable, self._readable = [_real(path) for path in writable], [_real(path) for path in readable]
        self._hidden = [_real(path) for path in hidden]

    def refuses(self, attempt: Attempt) -> tuple[str, str] | None:
        """(protection, path) when these rules stand in the way. Raises OSError when that cannot be told."""
        found = _find(attempt, by_path=True)
        if found is None or not _gets_that_far(attempt, found):
            return None
        listed = self._readable if attempt.reads else self._writable
        if any(_is_below(found.path, root) for root in listed) and not any(_is_below(found.path, each) for each in self._hidden):
            return None
        if not attempt.reads and _is_below(found.path, self._workspace):
            return "workspace_writes", found.path
        return _outside(attempt), found.path


def _real(path: str) -> str:
    return os.path.realpath(path)


def is_quiet(attempt: Attempt) -> bool:
    """Whether nobody wants to hear of it: programs try this and do without."""
    return attempt.path.startswith(_QUIET) or (not attempt.reads and _BYTE_CODE in attempt.path)


def _outside(attempt: Attempt) -> str:
    if attempt.reads:
        return "host_reads"
    return "host_metadata" if attempt.operation in METADATA else "host_writes"


def _gets_that_far(attempt: Attempt, found: _Found) -> bool:
    """Whether the kernel would not complain first that there is nothing, or something, at that name."""
    return attempt.needs == "either" or (attempt.needs == "present") == found.exists


def _find(attempt: Attempt, *, by_path: bool) -> _Found | None:
    """None when the directory of the path is not there either. Raises OSError for what is refused by no protection of ours."""
    flags = O_PATH | os.O_CLOEXEC | (0 if attempt.follows else os.O_NOFOLLOW)
    directory, name = os.path.split(attempt.path.rstrip("/"))
    try:
        return _look(attempt.path, flags, "", by_path)
    except _NOT_THERE:
        pass
    try:
        return _look(directory, O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, name, by_path)
    except _NOT_THERE:
        return None


def _look(path: str, flags: int, name: str, by_path: bool) -> _Found:
    """What is at `path`; with `name`, what would be made there under that name. Without `by_path` only mounts count."""
    handle = os.open(path or "/", flags)
    try:
        read_only = bool(os.fstatvfs(handle).f_flag & os.ST_RDONLY)
        if not read_only and not by_path:
            return _Found("", not name, False, "")
        where = os.readlink(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)
    return _Found(os.path.join(where, name), False, read_only, where) if name else _Found(where, True, read_only, where)


def _is_below(path: str, root: str) -> bool:
    return path == root or root == "/" or path.startswith(root + "/")


def view_of(plan: dict[str, Any], pinned: Callable[[str], bool]) -> MountedView | ListedView | None:
    """The view that the plan gives to commands; None where it leaves files alone."""
    files, workspace = plan["observer"]["files"], plan["workspace"]["path"]
    if files is None:
        return None
    if files["mounted"]:
        return MountedView(workspace, files["workspace_writable"], pinned, files["stand_ins"])
    return ListedView(workspace, files["writable"], files["readable"], files["hidden"])

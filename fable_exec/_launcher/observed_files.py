"""Whether confinement refuses what a command wants to do with a path, judged from the plan and the mounts, for reports only.

The kernel decides by itself, and later: a path may mean something else by then. So nothing here may ever be an answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from .observed_budget import Budget
from .observed_paths import PRESENT, Attempt, Found, find, is_special
from .refusals import Refusal
from .typed import Any, NamedTuple

METADATA = frozenset({"chmod", "chown", "utime", "setxattr", "removexattr"})
_QUIET = ("/dev/tty", "/dev/fd/", "/dev/std", "/proc/self/", "/proc/thread-self/")
"""Of the process itself, or of a terminal that no command has: what becomes of these is not confinement's doing."""
_REMOVALS = frozenset({"unlink", "rmdir", "rename"})
_BYTE_CODE = "/__pycache__"
"""An interpreter tries to keep its byte code beside a module and goes on without a word when it cannot (PEP 3147)."""
_CLOCK_SEQUENCE = "/var/lib/libuuid/"
"""libuuid keeps the sequence number of its clock there, and takes a random one when it cannot."""


class Refused(NamedTuple):
    """What stands in the way of an attempt.

    Args:
        protection, path: for the report.
        in_sight: False where the view lacks what the host may well have; else what is missing here is missing there.
    """

    protection: str
    path: str
    in_sight: bool = True


class MountedView:
    """In a root of its own, which holds only what was mounted there: mounts decide.

    Args:
        workspace, writable: where it is, and whether commands may change it.
        pinned: whether a path below the workspace, or one that it leads to, is pinned.
        stand_ins: private directories where the host has others of the same name.
    """

    def __init__(
        self, workspace: str, writable: bool, pinned: Callable[[str], bool], stand_ins: Iterable[str], budget: Budget
    ) -> None:
        self._budget = budget
        self._workspace, self._writable, self._pinned = workspace, writable, pinned
        self._stand_ins = frozenset(stand_ins)
        self._root_device = os.stat("/").st_dev

    def refuses(self, attempt: Attempt) -> Refused | None:
        """What of this view stands in the way. Raises OSError or ValueError when that cannot be told, OverBudget."""
        found = find(attempt, self._budget, by_path=attempt.needs in PRESENT or attempt.operation == "rename")
        if found is None:
            return _out_of_sight(attempt) if self._is_out_of_sight(attempt.path) else None
        if not found.path:
            return None  # nothing but a read-only mount would stand in the way
        if not found.exists and self._stands_for_the_hosts(found.directory, attempt):
            return Refused(_outside(attempt), found.path, False)
        if attempt.reads or not _gets_that_far(attempt, found) or (attempt.opens and is_special(found.mode)):
            return None
        if _is_below(found.path, self._workspace):
            return self._within(attempt, found)
        return Refused(_outside(attempt), found.path) if found.read_only else None

    def _within(self, attempt: Attempt, found: Found) -> Refused | None:
        if not self._writable:
            return Refused("workspace_writes", found.path) if found.read_only else None
        held = found.read_only or attempt.operation == "rename"  # what leads to a pin cannot be moved away either
        return Refused("later_files", found.path) if held and self._pinned(found.path) else None

    def _is_out_of_sight(self, path: str) -> bool:
        """Whether the nearest directory that exists is of the view's own making: below it the host may have anything."""
        path = "/" + path.lstrip("/")
        while path != "/":
            self._budget.check()
            path = os.path.dirname(path)
            if os.path.isdir(path):
                return path in self._stand_ins or os.stat(path).st_dev == self._root_device
        return True

    def _stands_for_the_hosts(self, directory: str, attempt: Attempt) -> bool:
        """Whether what is missing in `directory` may well be in the host's. In a stand-in things can be made all the same."""
        if directory in self._stand_ins:
            return attempt.needs in PRESENT and attempt.operation not in _REMOVALS
        return os.stat(directory).st_dev == self._root_device


class ListedView:
    """In the host's own root, where Landlock lets through what is listed.

    Args:
        writable, readable: what the rules list; hidden: what they leave out of that.
    """

    def __init__(self, workspace: str, writable: list[str], readable: list[str], hidden: list[str], budget: Budget) -> None:
        self._budget = budget
        self._workspace = workspace
        self._writable, self._readable = [_real(path) for path in writable], [_real(path) for path in readable]
        self._hidden = [_real(path) for path in hidden]

    def refuses(self, attempt: Attempt) -> Refused | None:
        """What of these rules stands in the way. Raises OSError or ValueError when that cannot be told, OverBudget."""
        found = find(attempt, self._budget)
        if found is None or not _gets_that_far(attempt, found):
            return None
        listed = self._readable if attempt.reads else self._writable
        if any(_is_below(found.path, root) for root in listed) and not any(_is_below(found.path, each) for each in self._hidden):
            return None
        if not attempt.reads and _is_below(found.path, self._workspace):
            return Refused("workspace_writes", found.path)
        return Refused(_outside(attempt), found.path)


def refusal_of(attempt: Attempt, found: Refused) -> Refusal:
    """How it is told."""
    return Refusal(attempt.operation, found.path, "", found.protection)


def refusal_out_of_sight(attempt: Attempt) -> Refusal:
    """How a path is told of which even the directory is missing in the view."""
    return refusal_of(attempt, _out_of_sight(attempt))


def _out_of_sight(attempt: Attempt) -> Refused:
    return Refused(_outside(attempt), _shown(attempt.path), False)


def _real(path: str) -> str:
    return os.path.realpath(path)


def is_quiet(attempt: Attempt) -> bool:
    """Whether nobody wants to hear of it: programs try this and do without."""
    return attempt.path.startswith((*_QUIET, _CLOCK_SEQUENCE)) or (not attempt.reads and _BYTE_CODE in attempt.path)


def _outside(attempt: Attempt) -> str:
    if attempt.reads:
        return "host_reads"
    return "host_metadata" if attempt.operation in METADATA else "host_writes"


def _gets_that_far(attempt: Attempt, found: Found) -> bool:
    """Whether the kernel would not complain first that there is nothing, or something, at that name."""
    return attempt.needs in ("either", "creatable") or (attempt.needs in PRESENT) == found.exists


def _shown(path: str) -> str:
    return path if ".." in path.split("/") else os.path.normpath(path)  # what is out of sight may be a link


def _is_below(path: str, root: str) -> bool:
    return path == root or root == "/" or path.startswith(root + "/")


def view_of(plan: dict[str, Any], pinned: Callable[[str], bool], budget: Budget) -> MountedView | ListedView | None:
    """The view that the plan gives to commands; None where it leaves files alone."""
    files, workspace = plan["observer"]["files"], plan["workspace"]["path"]
    if files is None:
        return None
    if files["mounted"]:
        return MountedView(workspace, files["workspace_writable"], pinned, files["stand_ins"], budget)
    return ListedView(workspace, files["writable"], files["readable"], files["hidden"], budget)

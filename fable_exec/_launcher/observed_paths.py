"""Where a path leads in the view that commands have: what the observer looks at before it judges. For reports only.

A path may mean something else by the time the kernel looks: nothing here may ever be an answer.
"""

from __future__ import annotations

import errno
import os
import stat

from .linuxos import O_PATH
from .observed_budget import Budget
from .typed import NamedTuple

PRESENT = frozenset({"present", "file", "regular", "directory", "empty"})
"""What a call needs to be there: something; something that is no directory; a regular file; a directory; an empty one.

Others need "absent"; "absent file", where a name that ends in a slash will not do; "either"; or "creatable": no directory."""

_NOT_THERE = (FileNotFoundError, NotADirectoryError)
_MAX_LINKS = 40  # that the kernel follows (path_resolution(7))
_MAX_PATH_BYTES = 4096  # PATH_MAX


class Attempt(NamedTuple):
    """What is about to be done with one path.

    Args:
        operation: the word for reports.
        path: absolute, as the command's own view has it, or the link in /proc to what a descriptor holds.
        needs: what must be there lest the call fail for that, whatever confinement says: see `PRESENT`.
        follows: whether a link at the end of the path is followed.
        reads: it changes nothing.
        told: whether a refusal of this path is worth telling; else it only says whether the call could have succeeded.
    """

    operation: str
    path: str
    needs: str
    follows: bool
    reads: bool = False
    told: bool = True

    @property
    def opens(self) -> bool:
        """Whether it opens a file that may be there already."""
        return self.operation.startswith("open")


class Found(NamedTuple):
    """Where a path leads. `read_only` is the mount's, of the file itself or of the directory it would be made in.

    `path` and `directory` are empty where nobody wanted them: most calls change what may be changed, and wait for this.
    """

    path: str
    mode: int
    read_only: bool
    directory: str

    @property
    def exists(self) -> bool:
        """Whether something is there."""
        return bool(self.mode)


def find(attempt: Attempt, budget: Budget, *, by_path: bool = True) -> Found | None:
    """None when the directory of the path is not there either. Without `by_path` only read-only mounts are described.

    Raises:
        OSError: the way there is closed for a reason that is no protection of ours (a mode, a loop of links, a name too long).
        ValueError: it is no file of any directory: a pipe, a socket, memory.
        OverBudget: see there.
    """
    budget.check()
    flags = O_PATH | os.O_CLOEXEC | (0 if attempt.follows else os.O_NOFOLLOW)
    try:
        return _look(attempt.path, flags, "", by_path)
    except _NOT_THERE:
        pass
    try:
        directory, name = os.path.split(_end_of_links(attempt, budget).rstrip("/"))
        return _look(directory, O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, name, by_path)
    except _NOT_THERE:
        return None


def _end_of_links(attempt: Attempt, budget: Budget) -> str:
    """What would be made through a link to nothing is made where the link points to.

    Only the last name is followed here. Those before it are the kernel's to resolve, which is bounded: a link may name a hundred
    others on its way, and each of them as many again.
    """
    path = attempt.path
    for _ in range(_MAX_LINKS if attempt.follows else 0):
        budget.check()
        try:
            target = os.readlink(path)
        except OSError:
            return path
        path = os.path.join(os.path.dirname(path), target)
        if len(os.fsencode(path)) >= _MAX_PATH_BYTES:
            raise OSError(errno.ENAMETOOLONG, "a link leads too far")
    return path


def _look(path: str, flags: int, name: str, by_path: bool) -> Found:
    """What is at `path`; with `name`, what would be made there under that name."""
    handle = os.open(path or "/", flags)
    try:
        read_only = bool(os.fstatvfs(handle).f_flag & os.ST_RDONLY)
        if not read_only and not by_path:
            return Found("", 0, False, "")
        mode = os.fstat(handle).st_mode
        where = os.readlink(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)
    if not where.startswith("/"):
        raise ValueError(f"no place in any directory: {where}")
    return Found(os.path.join(where, name), 0, read_only, where) if name else Found(where, mode, read_only, where)


def is_special(mode: int) -> bool:
    """Whether it is a pipe, a device or a socket, into which one may write on a read-only mount as well."""
    return bool(mode) and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))

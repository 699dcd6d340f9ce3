"""Which files are opened at all: regular ones, and under "private" only those that nobody else could have written.

Looks at what fstat says of the open file, so the answer is about the file that is read and no other.
"""

from __future__ import annotations

import functools
import os
import stat as stat_bits
from typing import Literal

from fable_exec.pathguard.facts import fact
from fable_exec.pathguard.reasons import denied

__all__ = ["Trust", "refuse_hard_link", "refuse_irregular", "refuse_untrusted"]

Trust = Literal["regular", "private"]


def refuse_irregular(status: os.stat_result, text: str, *, directory_required: bool = False) -> None:
    """Raise unless it is a regular file that may be named as the path named it ("f/" asks for a directory)."""
    mode = status.st_mode
    if stat_bits.S_ISLNK(mode):
        raise denied("symlink", text)
    if stat_bits.S_ISDIR(mode):
        raise fact("is-directory", text)
    if directory_required:
        raise fact("not-a-directory", text)
    if not stat_bits.S_ISREG(mode):
        raise denied("not-regular", text)


def refuse_hard_link(status: os.stat_result, text: str) -> None:
    """Raise when the file has a second name, which may be outside the workspace."""
    if status.st_nlink > 1:
        raise denied("hard-link", text)


def refuse_untrusted(status: os.stat_result, text: str, trust: Trust) -> None:
    """Raise unless the open regular file meets `trust`.

    Writable by the group passes under "private" when the group is this user's own: many systems have umask 002.
    """
    if trust == "regular":
        return
    if trust != "private":
        raise ValueError(f"trust is 'regular' or 'private', not {trust!r}")
    refuse_hard_link(status, text)
    if status.st_mode & stat_bits.S_IWOTH:
        raise denied("writable-by-others", text)
    if status.st_mode & stat_bits.S_IWGRP and not _is_own_private_group(status.st_gid):
        raise denied("writable-by-others", text)


def _is_own_private_group(group_id: int) -> bool:
    if os.name != "posix":
        return False
    return _private_group_of(os.geteuid()) == group_id


@functools.lru_cache(maxsize=8)
def _private_group_of(user_id: int) -> int | None:
    """The primary group of the user if it has the user's name and no other member (user private groups); None if unsure."""
    import grp
    import pwd

    try:
        user = pwd.getpwuid(user_id)
        group = grp.getgrgid(user.pw_gid)
    except KeyError:
        return None
    is_private = group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
    return user.pw_gid if is_private else None

"""Where a control group of a job's own could be (cgroups(7), version 2): asked, and nothing is made or changed.

Processes may only live in the leaves of a tree whose inner groups pass controllers on. So a group for commands has its place
beside our own group, below a parent that is delegated to this user and passes memory and pids on.
"""

from __future__ import annotations

import os

_MOUNTS = "/proc/self/mountinfo"
_OWN = "/proc/self/cgroup"
_WANTED = ("memory", "pids")


def missing_control_group() -> str:
    """Why there can be none; empty when there could."""
    try:
        parent = _parent()
        if not parent:
            return "no control groups of version 2"
        passed_on = _read(f"{parent}/cgroup.subtree_control").split()
    except OSError as error:
        return f"control groups cannot be read ({error.strerror})"
    lacking = [name for name in _WANTED if name not in passed_on]
    if lacking:
        return f"control groups here pass no {' or '.join(lacking)} controller on"
    return "" if os.access(parent, os.W_OK) else "no control group is delegated to this user"


def beside_own() -> str:
    """The directory in which a group beside our own may be made, for ending it as a whole; empty when there is none."""
    try:
        parent = _parent()
    except OSError:
        return ""
    return parent if parent and os.access(parent, os.W_OK) and os.access(f"{parent}/cgroup.procs", os.W_OK) else ""


def _parent() -> str:
    """Where groups beside our own have their place; empty where there are none. Raises OSError."""
    mounted, own = _mount_point(_read(_MOUNTS)), _own_path(_read(_OWN))
    if not mounted or not own:
        return ""
    return os.path.dirname(mounted + own) if own != "/" else mounted


def _mount_point(mounts: str) -> str:
    """Where the hierarchy of version 2 is mounted (proc_pid_mountinfo(5)); empty when it is not."""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
            return before.split()[4]
    return ""


def _own_path(groups: str) -> str:
    """Our group in that hierarchy, which has number 0."""
    return next((line[3:] for line in groups.splitlines() if line.startswith("0::")), "")


def _read(path: str) -> str:
    with open(path, "rb") as file:  # as text a codec would be looked for, in each keeper anew
        return file.read().decode("utf-8", "surrogateescape")

"""Keep files that run later read-only inside a writable workspace, by mounts in the launcher's base that reach every slot.

A pin is a read-only mount of a file or directory over itself; an anchor is a plain mount of a directory above it over itself, so
that none of them can be renamed or removed. A rename by the host over a pinned file silently takes the mount away (the kernel
detaches it): `keep` finds that out by the list of mounts and puts it back. Where the kernel refuses one pin the others hold.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

from . import kernel_mount
from .kernel_fs import RESOLVE_STRICT, openat2
from .linuxos import O_PATH
from .typed import NamedTuple

_NO_FOLLOW = O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_ANCHOR = kernel_mount.MOUNT_ATTR_NOSUID | kernel_mount.MOUNT_ATTR_NODEV
_PIN = _ANCHOR | kernel_mount.MOUNT_ATTR_RDONLY
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)

Mounts = dict[str, bool]
"""Mount points, and whether what is mounted there is read-only."""


class Refused(NamedTuple):
    """Pins that the kernel would not have: why the first one was refused, which it was, and how many there are."""

    number: int
    path: str
    pins: int


class Pins:
    """The pins of one workspace, in this process's mount namespace."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        self._wanted: tuple[str, ...] = ()
        self._refused: Refused | None = None

    def hold(self, paths: Iterable[str]) -> Refused | None:
        """Pin `paths` (relative to the workspace) from now on; those pinned before stay so while they exist. As `keep`."""
        self._wanted = tuple(dict.fromkeys((*self._wanted, *paths)))
        return self.keep()

    def holds(self, path: str) -> bool:
        """Whether the absolute `path` is pinned, below a pin, or a directory above one."""
        below = path.removeprefix(self._workspace + "/")
        return any(below == pin or below.startswith(pin + "/") or pin.startswith(below + "/") for pin in self._wanted)

    def keep(self) -> Refused | None:
        """Put every pin in place that is not; what no longer exists is forgotten, what is refused is tried again next time."""
        mounted = _mounts()
        self._refused = None
        root = os.open(self._workspace, O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._wanted = tuple(path for path in self._wanted if self._keep_one(root, path, mounted))
        finally:
            os.close(root)
        return self._refused

    def _keep_one(self, root: int, path: str, mounted: Mounts) -> bool:
        parents = path.split("/")[:-1]
        try:
            for depth in range(1, len(parents) + 1):
                self._over_itself(root, "/".join(parents[:depth]), _ANCHOR, mounted)
            self._over_itself(root, path, _PIN, mounted)
        except OSError as error:
            if error.errno in _GONE:
                return False
            first = self._refused or Refused(error.errno or errno.EIO, path, 0)
            self._refused = first._replace(pins=first.pins + 1)
        return True

    def _over_itself(self, root: int, path: str, attributes: int, mounted: Mounts) -> None:
        place = f"{self._workspace}/{path}"
        # A directory that was an anchor and becomes a pin gets a second mount.
        if mounted.get(place) or (place in mounted and attributes == _ANCHOR):
            return
        target = openat2(root, path, _NO_FOLLOW, resolve=RESOLVE_STRICT)
        try:
            tree = kernel_mount.copy_tree_of(target, recursive=True)
            try:
                # A copy would be a peer of what it lies over, and every mount below would be made in both: twice as many a level.
                kernel_mount.leave_peers(tree)
                kernel_mount.set_attributes(tree, attributes, recursive=attributes == _PIN)
                kernel_mount.attach(tree, target)
            finally:
                os.close(tree)
        finally:
            os.close(target)
        mounted[place] = attributes == _PIN


def _mounts() -> Mounts:
    """Every mount of this namespace; of several at one place the last, which is on top, counts."""
    found: Mounts = {}
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            _, _, _, _, place, options, _ = line.split(b" ", 6)
            found[_unescaped(place)] = options.split(b",", 1)[0] == b"ro"
    return found


def _unescaped(field: bytes) -> str:
    """proc_pid_mountinfo(5) writes space, tab, newline and backslash as three octal digits."""
    if b"\\" not in field:
        return os.fsdecode(field)
    for escape, byte in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        field = field.replace(escape, byte)
    return os.fsdecode(field)

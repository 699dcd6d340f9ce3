"""System calls that build a file-system view: the new mount interface and pivot_root(2), one wrapper each.

Objects are named by descriptor wherever the kernel allows it, so that a path swapped in between cannot redirect a mount.
Sources: mount_setattr(2), open_tree(2), move_mount(2), pivot_root(2), umount2(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform

from .kernel_errors import checked

AT_EMPTY_PATH = 0x1000
AT_SYMLINK_NOFOLLOW = 0x100
AT_RECURSIVE = 0x8000
OPEN_TREE_CLONE = 1
OPEN_TREE_CLOEXEC = os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH = 0x4
MOVE_MOUNT_T_EMPTY_PATH = 0x40
MNT_DETACH = 2

_MS_PRIVATE = 1 << 18

MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
MOUNT_ATTR_NODEV = 0x4

_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    )


def open_tree(path: str, *, recursive: bool, directory: int = -100) -> int:
    """A detached copy of the mount tree at `path` (the object itself, never a link's target); the descriptor is the caller's."""
    flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW | (AT_RECURSIVE if recursive else 0)
    return _call("open_tree", path, _OPEN_TREE, directory, os.fsencode(path), ctypes.c_uint(flags))


def copy_tree_of(descriptor: int, *, recursive: bool) -> int:
    """A detached copy of the mount tree at the object behind `descriptor`."""
    flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | (AT_RECURSIVE if recursive else 0)
    return _call("open_tree", "", _OPEN_TREE, descriptor, b"", ctypes.c_uint(flags))


def attach(tree: int, target: int) -> None:
    """Put the detached `tree` over the object behind `target`."""
    flags = ctypes.c_uint(MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH)
    _call("move_mount", "", _MOVE_MOUNT, tree, b"", target, b"", flags)


def set_attributes(tree: int, attributes: int, *, recursive: bool) -> None:
    """Set MOUNT_ATTR_* on the mount behind `tree`, or on all below it."""
    _set(tree, b"", AT_EMPTY_PATH | (AT_RECURSIVE if recursive else 0), _MountAttributes(set=attributes))


def leave_peers(tree: int) -> None:
    """Let the detached `tree` share nothing with what it was copied from; a shared place to attach it to shares it anew."""
    _set(tree, b"", AT_EMPTY_PATH | AT_RECURSIVE, _MountAttributes(propagation=_MS_PRIVATE))


def set_propagation(path: str, propagation: int) -> None:
    """Change the propagation of every mount at and below `path` to an MS_* value."""
    _set(-100, os.fsencode(path), AT_RECURSIVE, _MountAttributes(propagation=propagation))


def pivot_root(new_root: str, put_old: str) -> None:
    """Make `new_root` the root of this mount namespace and move the old one to `put_old`."""
    number = _PIVOT_ROOT.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"pivot_root() is not known for {platform.machine()}")
    _call("pivot_root", new_root, number, os.fsencode(new_root), os.fsencode(put_old))


def detach(path: str) -> None:
    """Unmount `path` as soon as nobody uses it."""
    checked(_libc.umount2(os.fsencode(path), MNT_DETACH), "umount2", path)


def _set(directory: int, path: bytes, flags: int, attributes: _MountAttributes) -> None:
    pointer, size = ctypes.byref(attributes), ctypes.c_size_t(ctypes.sizeof(attributes))
    _call("mount_setattr", os.fsdecode(path), _MOUNT_SETATTR, directory, path, ctypes.c_uint(flags), pointer, size)


def _call(call: str, path: str, number: int, *arguments: object) -> int:
    # Plain integers would be passed as C int; the kernel reads whole registers.
    widened = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return checked(_syscall(ctypes.c_long(number), *widened), call, path)

"""System calls that build a file-system view: the new mount interface and pivot_root(2), one wrapper each.

Objects are named by descriptor wherever the kernel allows it, so that a path swapped in between cannot redirect a mount.
Sources: mount_setattr(2), open_tree(2), move_mount(2), pivot_root(2), umount2(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable

from .kernel_errors import checked
from .kernel_fs import AT_FDCWD
from .typed import Any

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


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    )


def _prepared(*kinds: type[ctypes._SimpleCData[Any] | ctypes._Pointer[Any]]) -> Callable[..., int]:
    """syscall(2) with arguments of these kinds besides the number; a plain integer would be passed as C int."""
    return ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long, *kinds, use_errno=True)(("syscall", _libc))


_open_tree = _prepared(ctypes.c_long, ctypes.c_char_p, ctypes.c_ulong)
_move_mount = _prepared(ctypes.c_long, ctypes.c_char_p, ctypes.c_long, ctypes.c_char_p, ctypes.c_ulong)
_mount_setattr = _prepared(ctypes.c_long, ctypes.c_char_p, ctypes.c_ulong, ctypes.POINTER(_MountAttributes), ctypes.c_size_t)
_pivot_root = _prepared(ctypes.c_char_p, ctypes.c_char_p)


def open_tree(path: str, *, recursive: bool) -> int:
    """A detached copy of the mount tree at `path` (the object itself, never a link's target); the descriptor is the caller's."""
    flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW | (AT_RECURSIVE if recursive else 0)
    return checked(_open_tree(_OPEN_TREE, AT_FDCWD, os.fsencode(path), flags), "open_tree", path)


def copy_tree_of(descriptor: int, *, recursive: bool) -> int:
    """A detached copy of the mount tree at the object behind `descriptor`."""
    flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | (AT_RECURSIVE if recursive else 0)
    return checked(_open_tree(_OPEN_TREE, descriptor, b"", flags), "open_tree")


def attach(tree: int, target: int) -> None:
    """Put the detached `tree` over the object behind `target`."""
    checked(_move_mount(_MOVE_MOUNT, tree, b"", target, b"", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH), "move_mount")


def set_attributes(tree: int, attributes: int, *, recursive: bool) -> None:
    """Set MOUNT_ATTR_* on the mount behind `tree`, or on all below it."""
    _set(tree, b"", AT_EMPTY_PATH | (AT_RECURSIVE if recursive else 0), _MountAttributes(set=attributes))


def leave_peers(tree: int) -> None:
    """Let the detached `tree` share nothing with what it was copied from; a shared place to attach it to shares it anew."""
    _set(tree, b"", AT_EMPTY_PATH | AT_RECURSIVE, _MountAttributes(propagation=_MS_PRIVATE))


def set_propagation(path: str, propagation: int) -> None:
    """Change the propagation of every mount at and below `path` to an MS_* value."""
    _set(AT_FDCWD, os.fsencode(path), AT_RECURSIVE, _MountAttributes(propagation=propagation))


def pivot_root(new_root: str, put_old: str) -> None:
    """Make `new_root` the root of this mount namespace and move the old one to `put_old`."""
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"pivot_root() is not known for {os.uname().machine}")
    checked(_pivot_root(number, os.fsencode(new_root), os.fsencode(put_old)), "pivot_root", new_root)


def detach(path: str) -> None:
    """Unmount `path` as soon as nobody uses it."""
    checked(_libc.umount2(os.fsencode(path), MNT_DETACH), "umount2", path)


def _set(directory: int, path: bytes, flags: int, attributes: _MountAttributes) -> None:
    size = ctypes.sizeof(attributes)
    told = _mount_setattr(_MOUNT_SETATTR, directory, path, flags, ctypes.byref(attributes), size)
    checked(told, "mount_setattr", os.fsdecode(path))

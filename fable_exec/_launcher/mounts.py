"""Build the file-system view of a launcher: a new root in which only what the plan lists exists.

What is not listed is not hidden but absent, credentials above all. Every function is one step of a plan; the order is the plan's.
"""

from __future__ import annotations

import errno
import os
import stat

from . import kernel, kernel_mount
from .kernel_fs import RESOLVE_IN_ROOT, openat2
from .linuxos import O_PATH

MS_SHARED = 1 << 20
_READ_ONLY = kernel_mount.MOUNT_ATTR_RDONLY | kernel_mount.MOUNT_ATTR_NOSUID | kernel_mount.MOUNT_ATTR_NODEV
_WRITABLE = kernel_mount.MOUNT_ATTR_NOSUID | kernel_mount.MOUNT_ATTR_NODEV
_DEVICES = ("null", "zero", "full", "random", "urandom")
_OPTIONAL_DEVICES = ("tty",)
"""Some hosts lack it. The terminal of whoever opens it (tty(4)): no command has one of the host's, only what it made itself."""
_DEVICE_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
_PSEUDO_TERMINAL_OPTIONS = "newinstance,ptmxmode=0666,mode=0620"
_PROC_READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")
_COVERED = "/.covered"
_OLD_ROOT = "/.old-root"


class NewRoot:
    """The root under construction. `path` is where it is mounted until `enter` makes it "/"."""

    path = ""


_new_root = NewRoot()


def begin_root(path: str) -> None:
    """Start with an empty memory file system at `path`, an existing directory."""
    kernel.mount("tmpfs", path, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=0755,size=16m")
    _new_root.path = path
    os.mkdir(path + _OLD_ROOT, 0o700)
    os.mkdir(path + _COVERED, 0o700)
    os.mkdir(path + _COVERED + "/directory", 0o555)
    os.close(os.open(path + _COVERED + "/file", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))


def bind(source: str, target: str, access: str, need: str, mounts: str = "all") -> None:
    """Show the host's `source` at `target`.

    Args:
        access: "read-only" or "writable"; neither honours set-user-id files or devices.
        need: "optional" skips what the host does not have; "required" fails.
        mounts: "all" shows what is mounted below it too, "none" what lies there otherwise.

    A link is copied as a link, so that a merged /usr keeps its shape.
    """
    try:
        found = os.lstat(source)
    except OSError as error:
        if need == "optional" and error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
            return
        raise
    if stat.S_ISLNK(found.st_mode):
        _copy_link(source, target)
        return
    recursive = mounts == "all"
    tree = kernel_mount.open_tree(source, recursive=recursive)
    try:
        kernel_mount.set_attributes(tree, _READ_ONLY if access == "read-only" else _WRITABLE, recursive=recursive)
        _attach(tree, target, is_directory=stat.S_ISDIR(found.st_mode))
    finally:
        os.close(tree)


def cover(target: str) -> None:
    """Put an empty read-only file or directory over `target`, if it is there and none is over it; also once the root is entered.

    Links on the way lead to places of the new root. One that `target` is itself is left alone.
    """
    root = os.open(_new_root.path or "/", O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        place = openat2(root, target.lstrip("/"), O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, resolve=RESOLVE_IN_ROOT)
    except OSError:
        return
    finally:
        os.close(root)
    try:
        _cover_one(place)
    finally:
        os.close(place)


def _cover_one(place: int) -> None:
    found = os.fstat(place)
    if stat.S_ISLNK(found.st_mode):
        return
    empty = f"{_new_root.path}{_COVERED}/{'directory' if stat.S_ISDIR(found.st_mode) else 'file'}"
    if os.path.samestat(os.lstat(empty), found):
        return
    tree = kernel_mount.open_tree(empty, recursive=False)
    try:
        kernel_mount.set_attributes(tree, _READ_ONLY, recursive=False)
        kernel_mount.attach(tree, place)
    finally:
        os.close(tree)


def anchor(target: str) -> None:
    """Make the directory `target` of the new root a mount of its own, so that nobody can rename or remove it.

    For the directories above something mounted below a writable one: commands could otherwise move it all away, for every later
    command as well, and put something else in its place.
    """
    place = _make_place(target, is_directory=True)
    tree = kernel_mount.open_tree(place, recursive=False)
    try:
        kernel_mount.set_attributes(tree, _WRITABLE, recursive=False)
        _attach(tree, target, is_directory=True)
    finally:
        os.close(tree)


def memory(target: str, size_bytes: int, mode: int) -> None:
    """An empty writable memory file system at `target`, shared by the launcher's commands."""
    place = _make_place(target, is_directory=True)
    kernel.mount("tmpfs", place, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, f"mode={mode:o},size={size_bytes}")


def devices() -> None:
    """/dev with the harmless devices, a private pseudo-terminal directory and nothing else."""
    directory = _make_place("/dev", is_directory=True)
    for name in (*_DEVICES, *filter(_is_device_here, _OPTIONAL_DEVICES)):
        tree = kernel_mount.open_tree(f"/dev/{name}", recursive=False)
        try:
            _attach(tree, f"/dev/{name}", is_directory=False)
        finally:
            os.close(tree)
    for name, text in _DEVICE_LINKS.items():
        os.symlink(text, f"{directory}/{name}")
    _pseudo_terminals(directory)


def _is_device_here(name: str) -> bool:
    try:
        return stat.S_ISCHR(os.stat(f"/dev/{name}").st_mode)
    except OSError:
        return False


def mount_proc(pid_max: int = 0) -> None:
    """A /proc of this PID namespace, with everything that reaches beyond it read-only (root owns those files).

    With `pid_max` this namespace never gives a higher number. To be asked for only where that is the namespace's own.
    """
    target = _make_place("/proc", is_directory=True)
    kernel.mount("proc", target, "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    if pid_max:
        with open(f"{target}/sys/kernel/pid_max", "wb") as file:  # in bytes, as in steps.map_own_ids
            file.write(b"%d" % pid_max)
    for name in _PROC_READ_ONLY:
        _freeze(f"{target}/{name}")


def enter_root() -> None:
    """Make the new root "/", forget the old one, and let later mounts here reach the slots."""
    os.chdir(_new_root.path)
    kernel_mount.pivot_root(".", _new_root.path + _OLD_ROOT)
    kernel_mount.detach(_OLD_ROOT)
    os.chdir("/")
    _new_root.path = ""
    os.rmdir(_OLD_ROOT)
    kernel_mount.set_propagation("/", MS_SHARED)


def seal_root() -> None:
    """Nothing can be made in the new root any more (what is mounted below keeps its own rule)."""
    descriptor = os.open("/", O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        kernel_mount.set_attributes(descriptor, _READ_ONLY, recursive=False)
    finally:
        os.close(descriptor)


def follow_base() -> None:
    """In a slot: receive what is mounted in the base, send nothing back."""
    kernel_mount.set_propagation("/", kernel.MS_SLAVE)


def _copy_link(source: str, target: str) -> None:
    place = _new_root.path + target
    os.makedirs(os.path.dirname(place), 0o755, exist_ok=True)
    if not os.path.lexists(place):
        os.symlink(os.readlink(source), place)


def _attach(tree: int, target: str, *, is_directory: bool) -> None:
    place = os.open(_make_place(target, is_directory=is_directory), O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        kernel_mount.attach(tree, place)
    finally:
        os.close(place)


def _make_place(target: str, *, is_directory: bool) -> str:
    """The path of `target` in the new root, made if it is not there."""
    place = _new_root.path + target
    if os.path.lexists(place):
        return place
    try:
        _make(place, is_directory=is_directory)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(place), 0o755)
        _make(place, is_directory=is_directory)
    return place


def _make(place: str, *, is_directory: bool) -> None:
    if is_directory:
        os.mkdir(place, 0o755)
    else:
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))


def _freeze(path: str) -> None:
    """Make the subtree at `path` read-only, if it is there."""
    try:
        tree = kernel_mount.open_tree(path, recursive=True)
    except FileNotFoundError:
        return
    try:
        kernel_mount.set_attributes(tree, _READ_ONLY, recursive=True)
        place = os.open(path, O_PATH | os.O_CLOEXEC)
        try:
            kernel_mount.attach(tree, place)
        finally:
            os.close(place)
    finally:
        os.close(tree)


def _pseudo_terminals(directory: str) -> None:
    os.mkdir(f"{directory}/pts", 0o755)
    os.symlink("pts/ptmx", f"{directory}/ptmx")
    try:
        kernel.mount("devpts", f"{directory}/pts", "devpts", kernel.MS_NOSUID | kernel.MS_NOEXEC, _PSEUDO_TERMINAL_OPTIONS)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EACCES, errno.ENODEV):
            raise  # pseudo-terminals are a comfort: without them everything else still holds

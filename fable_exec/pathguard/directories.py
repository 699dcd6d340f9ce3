"""A held directory and what can be done to single names in it: the only place that names a file to the system.

`HeldDirectory` is a descriptor: whatever happens to its path, it stays the same directory. `CheckedDirectory` is the reduced form
for systems where Python has no directory descriptors (Windows): it looks before each use, which a racing writer can beat.
Errors are the kernel's OSError; policy and error texts are above.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat as stat_bits
from collections.abc import Iterator
from typing import Protocol

from fable_exec import _sys
from fable_exec._sys.attributes import HAS_ATTRIBUTES, attributes_of

__all__ = ["CheckedDirectory", "Directory", "HeldDirectory", "give_mode", "give_owner", "is_link"]

# Missing on Windows, where O_BINARY is needed instead: without it line ends are rewritten.
_ALWAYS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NEVER_FOLLOW_NOR_BLOCK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
_TO_READ = os.O_RDONLY | _NEVER_FOLLOW_NOR_BLOCK | _ALWAYS
_ROOT = 0


class Directory(Protocol):
    """What the operations need of a directory. `name` is always a single name."""

    def close(self) -> None: ...
    def status(self) -> os.stat_result: ...
    def is_removed(self) -> bool: ...
    def look(self, name: str) -> os.stat_result: ...
    def look_with_attributes(self, name: str) -> tuple[os.stat_result, dict[str, bytes]]: ...
    def open(self, name: str, flags: int, mode: int = 0o600) -> int: ...
    def make(self, name: str, mode: int) -> None: ...
    def unlink(self, name: str) -> None: ...
    def remove_directory(self, name: str) -> None: ...
    def rename(self, name: str, target: Directory, target_name: str) -> None: ...
    def rename_noreplace(self, name: str, target: Directory, target_name: str) -> None: ...
    def link(self, name: str, target: Directory, target_name: str) -> None: ...
    def read_link(self, name: str) -> str: ...
    def names(self) -> contextlib.AbstractContextManager[Iterator[os.DirEntry[str]]]: ...
    def sync(self) -> bool: ...


class HeldDirectory:
    """A directory by its descriptor, which it owns. With `no_xdev` no name that is a mount point is opened."""

    __slots__ = ("_readable", "fd", "no_xdev")

    def __init__(self, fd: int, *, no_xdev: bool = False, readable: bool = False) -> None:
        self.fd = fd
        self.no_xdev = no_xdev
        self._readable = readable

    def close(self) -> None:
        os.close(self.fd)

    def status(self) -> os.stat_result:
        return os.fstat(self.fd)

    def is_removed(self) -> bool:
        """Whether it has no name any more: it can still be listed then, and looks empty."""
        return os.fstat(self.fd).st_nlink == 0

    def look(self, name: str) -> os.stat_result:
        """lstat: of a link itself, never of its target."""
        return os.stat(name, dir_fd=self.fd, follow_symlinks=False)

    def look_with_attributes(self, name: str) -> tuple[os.stat_result, dict[str, bytes]]:
        """As `look`, and what replaces a regular file is to have of it: both of one file, whoever replaces it meanwhile."""
        if not HAS_ATTRIBUTES:
            return self.look(name), {}
        handle = _sys.open_handle(name, self.fd)
        try:
            status = os.fstat(handle)
            return status, attributes_of(handle) if stat_bits.S_ISREG(status.st_mode) else {}
        finally:
            os.close(handle)

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open without following, blocking or taking a terminal. A new file (O_EXCL) has exactly `mode`, whatever the umask."""
        strict = flags | _NEVER_FOLLOW_NOR_BLOCK | _ALWAYS
        if self.no_xdev:
            fd = _sys.open_beneath(name, self.fd, strict, mode if flags & os.O_CREAT else 0, no_xdev=True)
        else:
            fd = os.open(name, strict, mode, dir_fd=self.fd)
        if flags & os.O_EXCL:
            try:
                give_mode(fd, mode)
            except BaseException:
                os.close(fd)  # whether the name still means the new file only the caller can say
                raise
        return fd

    def open_to_read(self, name: str) -> int:
        """The same for reading alone, without a look at flags: there may be 100 000 names."""
        return self.open(name, os.O_RDONLY) if self.no_xdev else os.open(name, _TO_READ, dir_fd=self.fd)

    def reopen(self) -> int:
        """A descriptor of the same directory that can be listed and synced; a handle found by a resolver cannot."""
        return os.open(".", os.O_RDONLY | _DIRECTORY | _ALWAYS, dir_fd=self.fd)

    def make(self, name: str, mode: int) -> None:
        """A new directory with exactly `mode`, whatever the umask."""
        os.mkdir(name, mode, dir_fd=self.fd)
        _give_directory_mode(name, self.fd, mode)
        _give_directory_owner(name, self.fd)

    def unlink(self, name: str) -> None:
        os.unlink(name, dir_fd=self.fd)

    def remove_directory(self, name: str) -> None:
        os.rmdir(name, dir_fd=self.fd)

    def rename(self, name: str, target: Directory, target_name: str) -> None:
        os.rename(name, target_name, src_dir_fd=self.fd, dst_dir_fd=_fd_of(target))

    def rename_noreplace(self, name: str, target: Directory, target_name: str) -> None:
        _sys.rename_noreplace(name, target_name, old_dir_fd=self.fd, new_dir_fd=_fd_of(target))

    def link(self, name: str, target: Directory, target_name: str) -> None:
        os.link(name, target_name, src_dir_fd=self.fd, dst_dir_fd=_fd_of(target), follow_symlinks=False)

    def read_link(self, name: str) -> str:
        return os.readlink(name, dir_fd=self.fd)

    @contextlib.contextmanager
    def names(self) -> Iterator[Iterator[os.DirEntry[str]]]:
        fd = self.reopen()
        try:
            with os.scandir(fd) as entries:
                yield entries
        finally:
            os.close(fd)

    def sync(self) -> bool:
        """Make its entries durable; False when this user may change the directory but not read it, which fsync needs."""
        if self._readable:
            _sys.sync_directory(self.fd)
            return True
        try:
            fd = self.reopen()
        except PermissionError:
            return False
        try:
            _sys.sync_directory(fd)
        finally:
            os.close(fd)
        return True


def give_mode(fd: int, mode: int) -> None:
    """Give an open file of ours exactly `mode`."""
    if os.name != "posix":
        return
    try:
        os.fchmod(fd, mode)
    except OSError as error:
        # The owner may always do this, save on file systems that have one mode for all files (vfat, some shares).
        if error.errno not in (errno.EPERM, errno.ENOTSUP):
            raise


def _give_directory_mode(name: str, dir_fd: int, mode: int) -> None:
    """By a handle: the name could have become a link since the directory was made, and then nothing is done."""
    if os.chmod in os.supports_follow_symlinks and os.chmod in os.supports_dir_fd:  # macOS
        with contextlib.suppress(OSError):
            os.chmod(name, mode, dir_fd=dir_fd, follow_symlinks=False)
        return
    try:
        handle = _sys.open_handle(name, dir_fd)
    except OSError:
        return  # gone again, or a system that cannot hold what it may not read
    try:
        status = os.fstat(handle)
        if stat_bits.S_ISDIR(status.st_mode) and status.st_mode & 0o777 != mode:
            with contextlib.suppress(OSError):  # one mode for all, or another user's by now
                os.chmod(f"/proc/self/fd/{handle}", status.st_mode & 0o7000 | mode)
    finally:
        os.close(handle)


def give_owner(fd: int, directory: Directory) -> None:
    """Give a new file of root's to the user whose directory it is in: commands run as that user, and could not read it."""
    if (theirs := _another_users(directory.status())) is not None:
        with contextlib.suppress(OSError):  # one owner for all, or a user that is not known here
            os.fchown(fd, *theirs)


def _give_directory_owner(name: str, parent: int) -> None:
    """The same for a new directory. The name could mean another one since it was made: only an empty one is given away."""
    if (theirs := _another_users(os.fstat(parent))) is None:
        return
    with contextlib.suppress(OSError):
        fd = os.open(name, os.O_RDONLY | _DIRECTORY | _NEVER_FOLLOW_NOR_BLOCK | _ALWAYS, dir_fd=parent)
        try:
            if os.fstat(fd).st_uid == os.geteuid() and not os.listdir(fd):
                os.fchown(fd, *theirs)
        finally:
            os.close(fd)


def _another_users(status: os.stat_result) -> tuple[int, int] | None:
    """Owner and group of a directory, if this is root and it is somebody else's."""
    if os.name != "posix" or os.geteuid() != _ROOT or status.st_uid == _ROOT:
        return None
    return status.st_uid, status.st_gid


def _fd_of(directory: Directory) -> int:
    if not isinstance(directory, HeldDirectory):
        raise TypeError("directories of two kinds cannot work together")
    return directory.fd


class CheckedDirectory:
    """A directory by its path and identity: each use looks at the path first and refuses links and reparse points.

    Reduced: between the look and the use another process can swap what the path means.
    """

    __slots__ = ("_identity", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._identity = _identity(os.lstat(path))

    def close(self) -> None:
        """Nothing is held."""

    def status(self) -> os.stat_result:
        return os.lstat(self.path)

    def is_removed(self) -> bool:
        return False  # each use looks by itself

    def _at(self, name: str) -> str:
        found = os.lstat(self.path)
        if is_link(found) or _identity(found) != self._identity:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)
        return os.path.join(self.path, name)

    def look(self, name: str) -> os.stat_result:
        return os.lstat(self._at(name))

    def look_with_attributes(self, name: str) -> tuple[os.stat_result, dict[str, bytes]]:
        return self.look(name), {}

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        path = self._at(name)
        if not flags & os.O_EXCL and is_link(os.lstat(path)):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return os.open(path, flags | _NEVER_FOLLOW_NOR_BLOCK | _ALWAYS, mode)

    def make(self, name: str, mode: int) -> None:
        os.mkdir(self._at(name), mode)

    def unlink(self, name: str) -> None:
        os.unlink(self._at(name))

    def remove_directory(self, name: str) -> None:
        os.rmdir(self._at(name))

    def rename(self, name: str, target: Directory, target_name: str) -> None:
        os.replace(self._at(name), _checked(target)._at(target_name))

    def rename_noreplace(self, name: str, target: Directory, target_name: str) -> None:
        if os.name != "nt":
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), name)
        os.rename(self._at(name), _checked(target)._at(target_name))  # never replaces on Windows

    def link(self, name: str, target: Directory, target_name: str) -> None:
        os.link(self._at(name), _checked(target)._at(target_name))

    def read_link(self, name: str) -> str:
        return os.readlink(self._at(name))

    @contextlib.contextmanager
    def names(self) -> Iterator[Iterator[os.DirEntry[str]]]:
        with os.scandir(self._at("")) as entries:
            yield entries

    def sync(self) -> bool:
        return True


def _checked(directory: Directory) -> CheckedDirectory:
    if not isinstance(directory, CheckedDirectory):
        raise TypeError("directories of two kinds cannot work together")
    return directory


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def is_link(status: os.stat_result) -> bool:
    """A symbolic link, or on Windows any reparse point (junctions and mount points lead elsewhere as well)."""
    reparse = getattr(stat_bits, "FILE_ATTRIBUTE_REPARSE_POINT", 0x400)
    return stat_bits.S_ISLNK(status.st_mode) or bool(getattr(status, "st_file_attributes", 0) & reparse)

"""What the operations of a Workspace return: frozen values without handles."""

from __future__ import annotations

import enum
import functools
import hashlib
import os
import stat as stat_bits

import attrs

from fable_exec.pathguard.lexical import WorkspacePath

__all__ = ["Appended", "Entry", "FileContent", "FileKind", "Listing", "TreeEntry", "Written"]


class FileKind(enum.Enum):
    """What a name stands for; a link is a link, whatever it points at."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    FIFO = "fifo"
    SOCKET = "socket"
    DEVICE = "device"
    UNKNOWN = "unknown"


_KIND_OF_FORMAT = {
    stat_bits.S_IFREG: FileKind.FILE,
    stat_bits.S_IFDIR: FileKind.DIRECTORY,
    stat_bits.S_IFLNK: FileKind.SYMLINK,
    stat_bits.S_IFIFO: FileKind.FIFO,
    stat_bits.S_IFSOCK: FileKind.SOCKET,
    stat_bits.S_IFBLK: FileKind.DEVICE,
    stat_bits.S_IFCHR: FileKind.DEVICE,
}


@attrs.frozen(kw_only=True)
class Entry:
    """One name and what it stands for. Of a link all of it describes the link."""

    name: str
    kind: FileKind
    size_bytes: int
    mode: int
    """The permission bits, with set-id and sticky."""
    modified_ns: int
    link_count: int

    @classmethod
    def of(cls, name: str, status: os.stat_result) -> Entry:
        """The entry `name` with what lstat said about it."""
        return cls(
            name=name,
            kind=_KIND_OF_FORMAT.get(stat_bits.S_IFMT(status.st_mode), FileKind.UNKNOWN),
            size_bytes=status.st_size,
            mode=stat_bits.S_IMODE(status.st_mode),
            modified_ns=status.st_mtime_ns,
            link_count=status.st_nlink,
        )


@attrs.frozen(kw_only=True)
class Listing:
    """The entries of one directory, sorted by name; `truncated` when there were more than the limit."""

    entries: tuple[Entry, ...]
    truncated: bool


@attrs.frozen(kw_only=True)
class TreeEntry:
    """One entry met while iterating over a tree."""

    path: WorkspacePath
    entry: Entry


@attrs.frozen(kw_only=True)
class FileContent:
    """Bytes read from a file; `sha256` is of `data`, `total_bytes` the size of the file when it was read."""

    data: bytes
    total_bytes: int
    truncated: bool

    @functools.cached_property
    def sha256(self) -> str:
        """Computed when somebody asks: it takes as long as reading."""
        return hashlib.sha256(self.data).hexdigest()


@attrs.frozen(kw_only=True)
class Written:
    """A file now holds exactly the bytes given. `previous_sha256` is known only when the caller named it as a condition."""

    sha256: str
    size_bytes: int
    created: bool
    previous_sha256: str | None = None


@attrs.frozen(kw_only=True)
class Appended:
    """Bytes were added at the end; `total_bytes` is the size right after."""

    added_bytes: int
    total_bytes: int
    created: bool

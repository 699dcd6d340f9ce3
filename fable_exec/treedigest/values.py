"""What the room takes and returns: frozen values. Pure."""

from __future__ import annotations

from enum import Enum

import attrs

__all__ = ["Difference", "Entry", "EntryKind", "Level", "Profile", "Progress", "are_names", "is_one_name"]


def is_one_name(name: object) -> bool:
    """Whether it can be the name of an engine's directory: one of the top."""
    return isinstance(name, str) and name not in ("", ".", "..") and not set("/\0") & set(name)


def are_names(joined: bytes) -> bool:
    """Whether all between the slashes can be names: none is empty, `.` or `..`, nor has a NUL in it."""
    closed = b"/%b/" % joined
    return not (b"//" in closed or b"/./" in closed or b"/../" in closed or b"\0" in closed)


class Profile(Enum):
    """What is bound and how it is written down."""

    TREE = "tree"
    """Everything below the directory."""
    LOKI_V3 = "loki-v3"
    """Byte for byte the tree digest of Loki receipts, manifest version 3."""


class Level(Enum):
    """How much a digest promises about a tree that somebody may still be changing."""

    FAST = "fast"
    """Read once. A change of a file while it is read is noticed as far as time stamps tell: not within one long write(2).
    Two files may be of different moments."""
    STABLE = "stable"
    """All of it stood at one moment; where the system can tell who has a file open, nobody could write to one."""
    SEALED = "sealed"
    """The same, and the system could tell it of every file."""


class EntryKind(Enum):
    """What stands at a path; the values are those of the manifests."""

    FILE = "file"
    SYMLINK = "symlink"
    DIRECTORY = "directory"
    FIFO = "fifo"
    SOCKET = "socket"
    BLOCK_DEVICE = "block-device"
    CHARACTER_DEVICE = "character-device"
    GIT = "git"
    """The state of the repository whose top this is: HEAD and index."""
    ENGINE = "engine"
    """The engine's own directory: that it is there, nothing of what is in it."""
    GITLINK = "gitlink"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    OTHER = "other"


@attrs.frozen(kw_only=True)
class Entry:
    """One line of a manifest.

    `path` is relative, "" the directory itself; bytes that are no UTF-8 stand in it as lone surrogates, as from `os.fsdecode`.
    """

    path: str
    kind: EntryKind
    mode: str = ""
    """Permission bits in octal; "x" or "-" in the profile loki-v3, "" where none are bound."""
    content: str = ""
    """A SHA-256, the text of a link, or the JSON of what else is bound."""
    size_bytes: int | None = None


@attrs.frozen(kw_only=True)
class Progress:
    """How far it is: files and bytes whose digest is known."""

    files: int
    size_bytes: int


@attrs.frozen(kw_only=True)
class Difference:
    """Paths that differ between two manifests, sorted by their bytes."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Of another content or kind."""
    mode_changed: tuple[str, ...] = ()
    """Only of another mode."""
    rules_changed: bool = False
    """The two were made by different rules, so a path may be in one of them alone without a change of the tree."""

    @property
    def is_empty(self) -> bool:
        """Whether there is none, in which case the manifests are equal."""
        return self == Difference()

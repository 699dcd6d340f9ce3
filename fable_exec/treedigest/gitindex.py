"""A git index file, read without git: bytes in, its lines out. Pure; nothing of the repository's configuration has a say.

Versions 2 to 4, SHA-1 and SHA-256, and split indexes. Source: gitformat-index(5). The bytes may be anybody's: every length is
checked, and what is not wholly understood is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import struct
from binascii import hexlify
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

import attrs

from fable_exec.errors import StateUnreadable
from fable_exec.treedigest.values import are_names

__all__ = ["GITLINK", "IndexLine", "IndexLines", "listing_sha256", "offset_varint", "read_index"]

GITLINK = 0o160000
_ASSUME_VALID, _EXTENDED = 0x8000, 0x4000
_EXTENDED_SHIFT = 16
_SKIP_WORKTREE, _INTENT_TO_ADD = 0x4000 << _EXTENDED_SHIFT, 0x2000 << _EXTENDED_SHIFT
_NAME_LENGTH = 0x0FFF
_WORD_BITS = 64
_ROWS_AT_ONCE = 2_048
"""Hashed while they are in the processor's cache; all together they are as large as the index."""
_MOST_UNFOLDED = 8
"""All names of version 4, which says of each only what it adds to the one before, may be so many times as long as the file."""


class IndexLine(NamedTuple):
    """One line: what `git ls-files -s` shows of it, and whether git was told to look away from the file."""

    path: bytes
    mode: int
    oid: str
    stage: int
    marks: str
    """Letters: v assume unchanged, s skip worktree, i intent to add."""


@attrs.frozen
class IndexLines:
    """All lines in the order of the file, a list for each column: an object a line would keep the garbage collector busy."""

    paths: list[bytes]
    modes: list[int]
    oids: list[bytes]
    flags: list[int]
    """As in the file, without the length of the name; the extended ones above bit 16."""
    is_split: bool = False
    """Some are of a shared index, a file of its own."""

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[IndexLine]:
        for path, mode, oid, flags in self.rows():
            yield IndexLine(path, mode, oid.hex(), _stage(flags), _marks(flags))

    def rows(self) -> Iterator[_Row]:
        """The lines as they are kept."""
        return zip(self.paths, self.modes, self.oids, self.flags, strict=True)


_Row = tuple[bytes, int, bytes, int]


@attrs.frozen
class _Link:
    """A split index: the name of the shared one, and two bitmaps: which of its lines are deleted, and which replaced."""

    base_oid: bytes
    bitmaps: bytes


def read_index(data: bytes, path: str, shared: Callable[[str], bytes]) -> IndexLines:
    """What the index lists.

    Args:
        path: of the file, for messages.
        shared: gives the bytes of the shared index, `sharedindex.NAME`, that a split one builds on.

    Raises:
        StateUnreadable: `torn`, `foreign` or `newer`; a sparse index, which leaves lines to be looked up in the object store, is
            `foreign`.
    """
    lines, link = _parse(data, path)
    if link is not None:
        shared_data = shared(link.base_oid.hex())
        base, nested = _parse(shared_data, path)
        if not shared_data.endswith(link.base_oid):
            raise _unreadable("torn", path, "the shared index that it builds on is another one than it was")
        if nested is not None:
            raise _unreadable("foreign", path, "a shared index that is split itself")
        with _torn_where_it_ends(path):
            lines = _merged(lines, base, link)
    if len(lines) and not are_names(b"/".join(lines.paths)):
        raise _unreadable("foreign", path, "a path that is not made of names, as git would never write it")
    return lines


def listing_sha256(lines: IndexLines) -> str:
    """One digest of all lines: what is staged, not when files were looked at."""
    before = {mode: b"%o " % mode for mode in set(lines.modes)}
    behind = {flags: b" %d %b\t" % (_stage(flags), _marks(flags).encode()) for flags in set(lines.flags)}
    digest, rows, separator = hashlib.sha256(), lines.rows(), b""
    while some := [before[mode] + hexlify(oid) + behind[flags] + path for path, mode, oid, flags in islice(rows, _ROWS_AT_ONCE)]:
        digest.update(separator + b"\0".join(some))
        separator = b"\0"
    return digest.hexdigest()


def _unreadable(reason: str, path: str, what: str) -> StateUnreadable:
    return StateUnreadable(f"git index {path!r} ({reason}): {what}", reason=reason, path=path)


def _parse(data: bytes, path: str) -> tuple[IndexLines, _Link | None]:
    if len(data) < 32 or data[:4] != b"DIRC":
        raise _unreadable("torn" if not data.strip(b"\0") else "foreign", path, "it does not begin like one")
    version, count = struct.unpack_from(">II", data, 4)
    if version not in (2, 3, 4):
        raise _unreadable("newer" if version > 4 else "foreign", path, f"version {version}")
    oid_bytes = _oid_bytes(data, path)
    with _torn_where_it_ends(path):
        lines, end = _lines(data, version, count, oid_bytes)
        return lines, _link(data, end, len(data) - oid_bytes, oid_bytes, path)


@contextlib.contextmanager
def _torn_where_it_ends(path: str) -> Iterator[None]:
    """Whatever reads beyond the end, or finds a number that cannot be, makes the file torn."""
    try:
        yield
    except StateUnreadable:
        raise
    except (struct.error, ValueError, IndexError, StopIteration) as error:
        raise _unreadable("torn", path, f"an entry does not end where it should ({error})") from error


def _oid_bytes(data: bytes, path: str) -> int:
    """20 or 32, by which checksum at the end is right; the configuration, which says it too, is not asked."""
    view = memoryview(data)  # of which a piece is no copy
    for size, kind in ((20, "sha1"), (32, "sha256")):
        if view[-size:] == hashlib.new(kind, view[:-size], usedforsecurity=False).digest():
            return size
    if not any(data[-20:]):  # index.skipHash
        return 32 if not any(data[-32:]) else 20
    raise _unreadable("torn", path, "its checksum is wrong")


def _lines(data: bytes, version: int, count: int, oid_bytes: int) -> tuple[IndexLines, int]:
    """`count` lines and where they end."""
    fixed = struct.Struct(f">24xI12x{oid_bytes}sH")
    unpack, size, end = fixed.unpack_from, fixed.size, len(data) - oid_bytes
    if count * size > end:
        raise ValueError("more lines than fit")
    paths: list[bytes] = []
    modes: list[int] = []
    oids: list[bytes] = []
    all_flags: list[int] = []
    position, name, room = 12, b"", _MOST_UNFOLDED * len(data)
    for _ in range(count):
        mode, oid, flags = unpack(data, position)
        start = position + size
        length = flags & _NAME_LENGTH
        flags ^= length
        if flags & _EXTENDED:
            flags |= struct.unpack_from(">H", data, start)[0] << _EXTENDED_SHIFT
            start += 2
        if version == 4:
            cut, start = offset_varint(data, start, len(name))
            stop = data.index(b"\0", start, end)
            name = name[: len(name) - cut] + data[start:stop]
            room -= len(name)
            if room < 0:
                raise ValueError("names that are much longer than the file")
            position = stop + 1
        else:
            stop = start + length if length < _NAME_LENGTH else data.index(b"\0", start, end)
            name = data[start:stop]
            if data[stop] or stop >= end:
                raise ValueError("a name without an end")
            position += (stop - position + 8) & ~7
        paths.append(name)
        modes.append(mode)
        oids.append(oid)
        all_flags.append(flags)
    return IndexLines(paths, modes, oids, all_flags), position


def _stage(flags: int) -> int:
    return flags >> 12 & 3


def _marks(flags: int) -> str:
    told = ((_ASSUME_VALID, "v"), (_SKIP_WORKTREE, "s"), (_INTENT_TO_ADD, "i"))
    return "".join(letter for bit, letter in told if flags & bit)


def offset_varint(data: bytes, position: int, most: int) -> tuple[int, int]:
    """The number at `position` in git's encoding of offsets, and where it ends (gitformat-pack(5), "offset encoding").

    Raises:
        ValueError: it is above `most`. IndexError: `data` ends within it.
    """
    byte = data[position]
    value = byte & 0x7F
    while byte & 0x80 and value <= most:  # a number without end would take as long as the file squared
        position += 1
        byte = data[position]
        value = (value + 1 << 7) | byte & 0x7F
    if value > most:
        raise ValueError("counts back further than there is anything")
    return value, position + 1


def _link(data: bytes, position: int, end: int, oid_bytes: int, path: str) -> _Link | None:
    """Of the extensions only those count that change what the lines are; these have a small first letter."""
    link = None
    while position < end:
        name, (size,) = data[position : position + 4], struct.unpack_from(">I", data, position + 4)
        body = data[position + 8 : position + 8 + size]
        if position + 8 + size > end:
            raise ValueError("an extension without an end")
        if name == b"link":
            link = _read_link(body, oid_bytes)
        elif name == b"sdir":
            raise _unreadable(
                "foreign", path, "a sparse index; `git sparse-checkout reapply --no-sparse-index` writes it in full"
            )
        elif not 65 <= name[0] <= 90:
            raise _unreadable("newer", path, f"an extension {name!r} that must be understood")
        position += 8 + size
    return link


def _read_link(body: bytes, oid_bytes: int) -> _Link | None:
    base, bitmaps = body[:oid_bytes], body[oid_bytes:]
    if len(base) < oid_bytes:
        raise ValueError("a link without a name")
    return _Link(base, bitmaps) if any(base) else None


def _merged(lines: IndexLines, base: IndexLines, link: _Link) -> IndexLines:
    """The shared lines without the deleted ones, some replaced by the first of ours, in order; the rest of ours is added.

    A replacement has no name of its own: it keeps that of the line it replaces.
    """
    deleted, replaced = _bitmaps(link.bitmaps, len(base))
    if len(replaced) > len(lines):
        raise ValueError("replaces more lines than it has")
    own, merged = list(lines.rows()), list(base.rows())
    for number, (_, mode, oid, marked) in zip(replaced, own, strict=False):
        merged[number] = (base.paths[number], mode, oid, marked)
    kept = [row for number, row in enumerate(merged) if number not in deleted]
    kept = sorted([*kept, *own[len(replaced) :]], key=lambda row: (row[0], _stage(row[3])))
    paths, modes, oids, flags = map(list, zip(*kept, strict=True)) if kept else ([], [], [], [])
    return IndexLines(paths, modes, oids, flags, is_split=True)


def _bitmaps(data: bytes, most: int) -> tuple[frozenset[int], list[int]]:
    if not data:
        return frozenset(), []
    deleted, position = _ewah(data, 0, most)
    replaced, _ = _ewah(data, position, most)
    return frozenset(deleted), replaced


def _ewah(data: bytes, position: int, most: int) -> tuple[list[int], int]:
    """The numbers, all below `most`, of a compressed bitmap, and where it ends. Source: gitformat-bitmap."""
    bits, words = struct.unpack_from(">II", data, position)
    position += 8
    if words * 8 + 4 > len(data) - position or bits > most:
        raise ValueError("a bitmap without an end")
    stream: Iterator[int] = iter(struct.unpack_from(f">{words}Q", data, position))
    found: list[int] = []
    at = 0
    for marker in stream:
        run = (marker >> 1 & 0xFFFFFFFF) * _WORD_BITS
        if at + run >= bits + _WORD_BITS:
            raise ValueError("a bitmap longer than it says")
        if marker & 1:
            found += range(at, at + run)
        at += run
        for _ in range(marker >> 33):
            word = next(stream)
            found += [at + bit for bit in range(_WORD_BITS) if word >> bit & 1]
            at += _WORD_BITS
    if any(number >= most for number in found):
        raise ValueError("a bit for a line that is not there")
    return found, position + words * 8 + 4

"""Packs of a git repository: objects by their index, whole ones and those that are deltas. Source: gitformat-pack(5).

Whoever may write to the workspace may have written the pack: every length is checked.
"""

from __future__ import annotations

import os
import struct
import zlib

import attrs

from fable_exec.proofbind.changes.deltas import applied, bytes_made
from fable_exec.proofbind.changes.forms import KINDS, MAX_OBJECT_BYTES, damaged, too_large
from fable_exec.treedigest.gitindex import offset_varint

__all__ = ["Pack"]

_MAX_CHAIN = 4096
"""git makes chains of deltas of 50, and of 4095 at most."""
_MAX_MADE_BYTES = 16 * MAX_OBJECT_BYTES
"""By all deltas of a chain together."""
_CHUNK_BYTES = 1 << 16
_OFFSET_DELTA, _REFERENCE_DELTA = 6, 7
_FAN_OUT = 8
_BEFORE_NAMES = _FAN_OUT + 256 * 4


@attrs.frozen
class _Stored:
    """What stands at one place of a pack: content, or a delta and where its base is."""

    kind: int
    data: bytes
    base_offset: int = 0
    base_name: bytes = b""


class Pack:
    """One pack and its index, by descriptors that somebody else closes."""

    def __init__(self, index: int, pack: int, oid_bytes: int) -> None:
        self._index = index
        self._pack = pack
        self._oid_bytes = oid_bytes
        if _read_at(index, _FAN_OUT, 0) != b"\xfftOc\0\0\0\2":
            raise damaged("an index of a pack that is not of version 2")
        self._fan_out = struct.unpack(">256I", _read_at(index, 256 * 4, _FAN_OUT))
        self._count = self._fan_out[255]
        if list(self._fan_out) != sorted(self._fan_out) or self._count * oid_bytes > os.fstat(index).st_size:
            raise damaged("an index of a pack")

    def find(self, name: bytes) -> int | None:
        """Where in the pack the object is, None where it is in another."""
        first, end = self._fan_out[name[0] - 1] if name[0] else 0, self._fan_out[name[0]]
        size = self._oid_bytes
        while first < end:
            middle = (first + end) // 2
            here = _read_at(self._index, size, _BEFORE_NAMES + middle * size)
            if here == name:
                return self._offset(middle)
            first, end = (middle + 1, end) if here < name else (first, middle)
        return None

    def _offset(self, number: int) -> int:
        after_names = _BEFORE_NAMES + self._count * self._oid_bytes
        offsets = after_names + self._count * 4  # behind a checksum for each
        (offset,) = struct.unpack(">I", _read_at(self._index, 4, offsets + number * 4))
        if offset < 1 << 31:
            return int(offset)
        long_offsets = offsets + self._count * 4
        (offset,) = struct.unpack(">Q", _read_at(self._index, 8, long_offsets + (offset - (1 << 31)) * 8))
        return int(offset)

    def read(self, offset: int, oid: str) -> tuple[str, bytes]:
        """Kind and content of what begins at `offset`, all deltas applied."""
        deltas: list[bytes] = []
        made = 0
        for _ in range(_MAX_CHAIN):
            stored = self._stored(offset, oid)
            if stored.kind in KINDS:
                data = stored.data
                for delta in reversed(deltas):
                    data = applied(delta, data, oid)
                return KINDS[stored.kind], data
            deltas.append(stored.data)
            made += bytes_made(stored.data, oid)
            if sum(map(len, deltas)) > MAX_OBJECT_BYTES or made > _MAX_MADE_BYTES:
                raise too_large(oid)
            base = self.find(stored.base_name) if stored.base_name else stored.base_offset
            if base is None:
                raise damaged(f"the pack with {oid} lacks the base of a delta")
            offset = base
        raise damaged(f"a chain of more than {_MAX_CHAIN} deltas at {oid}")

    def _stored(self, offset: int, oid: str) -> _Stored:
        head = _read_some(self._pack, 64, offset)
        try:
            kind, size, position = _kind_and_size(head)
            base_offset, base_name = 0, b""
            if kind == _OFFSET_DELTA:
                distance, position = offset_varint(head, position, offset)
                base_offset = offset - distance
                if not 0 < base_offset < offset:
                    raise ValueError("a base that is not before it")
            elif kind == _REFERENCE_DELTA:
                base_name = head[position : position + self._oid_bytes]
                position += self._oid_bytes
            elif kind not in KINDS:
                raise ValueError(f"kind {kind}")
            if size > MAX_OBJECT_BYTES:
                raise too_large(oid)
            return _Stored(kind, self._inflate(offset + position, size), base_offset, base_name)
        except (IndexError, ValueError, zlib.error) as error:
            raise damaged(f"the pack with {oid} ({error})") from error

    def _inflate(self, offset: int, size: int) -> bytes:
        stream = zlib.decompressobj()
        data = bytearray()
        rest = b""
        while not stream.eof:
            if not rest:
                rest = _read_some(self._pack, min(_CHUNK_BYTES, size + 128), offset)
                offset += len(rest)
                if not rest:
                    raise ValueError("it ends too early")
            data += stream.decompress(rest, size + 1 - len(data))
            rest = stream.unconsumed_tail
            if len(data) > size:
                raise ValueError("it is longer than it says")
        if len(data) != size:
            raise ValueError("it is shorter than it says")
        return bytes(data)


def _read_some(descriptor: int, size: int, offset: int) -> bytes:
    try:
        return os.pread(descriptor, size, offset)
    except (OSError, OverflowError) as error:
        raise damaged(str(error)) from error


def _read_at(descriptor: int, size: int, offset: int) -> bytes:
    data = _read_some(descriptor, size, offset)
    if len(data) != size:
        raise damaged("a file of a pack ends too early")
    return data


def _kind_and_size(head: bytes) -> tuple[int, int, int]:
    """Kind and length of what follows, and where the number ends."""
    byte, position, shift = head[0], 1, 4
    kind, size = byte >> 4 & 7, byte & 15
    while byte & 0x80:
        byte = head[position]
        size |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
    return kind, size, position

"""Objects of a git repository, loose and packed, read without git, and given out only if they are what their name says.

Whoever may write to the workspace may write to its object store: an object whose digest is not its name is no object. Alternate
stores are not looked into, since they lie anywhere. Source: gitformat-pack(5). Every length is checked.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import struct
import zlib
from collections.abc import Iterator

import attrs

from fable_exec.errors import FableExecError, PathError
from fable_exec.pathguard import Workspace, WorkspacePath
from fable_exec.proofbind.changes.values import CannotTell
from fable_exec.treedigest.gitindex import offset_varint

__all__ = ["MAX_OBJECT_BYTES", "ObjectStore", "object_head", "object_id", "open_objects"]

MAX_OBJECT_BYTES = 64 << 20
"""A longer object is not read; nor is a longer file compared line by line."""
_MAX_NAMES = 10_000
_MAX_PACKS = 200
"""Each holds two descriptors of the host; git makes one pack of 50."""
_MAX_CHAIN = 4096
"""git makes chains of deltas of 50, and of 4095 at most."""
_MAX_MADE_BYTES = 16 * MAX_OBJECT_BYTES
"""By all deltas of a chain together."""
_CHUNK_BYTES = 1 << 16
_HASH_OF_LENGTH = {40: "sha1", 64: "sha256"}
_KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_OFFSET_DELTA, _REFERENCE_DELTA = 6, 7
_FAN_OUT = 8
_BEFORE_NAMES = _FAN_OUT + 256 * 4


def _damaged(what: str) -> CannotTell:
    return CannotTell("objects-damaged", f"the object store of the repository is damaged: {what}")


def _too_large(oid: str) -> CannotTell:
    return CannotTell("too-large", f"object {oid} is longer than {MAX_OBJECT_BYTES} bytes")


def object_head(kind: str, size: int) -> bytes:
    """What stands before the content of an object, in its file and in what its id is the digest of."""
    return b"%s %d\0" % (kind.encode(), size)


def object_id(kind: str, data: bytes, hash_kind: str) -> str:
    """The name that git gives `data` as an object of `kind`, by the hash function `hash_kind`: `sha1` or `sha256`."""
    digest = hashlib.new(hash_kind, object_head(kind, len(data)), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


class ObjectStore:
    """Reads objects below one `objects` directory. Made by `open_objects`."""

    def __init__(self, workspace: Workspace, components: tuple[str, ...], descriptors: contextlib.ExitStack) -> None:
        self._workspace = workspace
        self._components = (*components, "objects")
        self._descriptors = descriptors
        self._packs: list[_Pack] | None = None

    def read(self, oid: str) -> tuple[str, bytes]:
        """Kind and content of the object `oid`, a full object id in lower-case hexadecimal.

        Raises:
            CannotTell: `object-missing`, `objects-damaged`, `too-large` or `unreadable`.
        """
        found = self._loose(oid) or self._packed(oid)
        if found is None:
            raise CannotTell("object-missing", f"the repository itself does not hold object {oid}")
        kind, data = found
        if not hmac.compare_digest(object_id(kind, data, _HASH_OF_LENGTH[len(oid)]), oid):
            raise _damaged(f"what is stored as {oid} is something else")
        return kind, data

    def _path(self, *names: str) -> WorkspacePath:
        return WorkspacePath(components=(*self._components, *names))

    def _loose(self, oid: str) -> tuple[str, bytes] | None:
        try:
            content = self._workspace.read(self._path(oid[:2], oid[2:]), MAX_OBJECT_BYTES)
        except PathError as error:
            if error.reason in ("not-found", "not-a-directory"):
                return None
            raise CannotTell("unreadable", str(error)) from error
        except FableExecError as error:
            raise CannotTell("unreadable", str(error)) from error
        if content.truncated:
            raise _too_large(oid)
        return _parse_loose(content.data, oid)

    def _packed(self, oid: str) -> tuple[str, bytes] | None:
        if self._packs is None:
            self._packs = list(self._open_packs(len(oid) // 2))
        for pack in self._packs:
            offset = pack.find(bytes.fromhex(oid))
            if offset is not None:
                return pack.read(offset, oid)
        return None

    def _open_packs(self, oid_bytes: int) -> Iterator[_Pack]:
        try:
            listing = self._workspace.list(self._path("pack"), _MAX_NAMES)
        except PathError:
            return
        names = [entry.name.removesuffix(".idx") for entry in listing.entries if entry.name.endswith(".idx")]
        if listing.truncated:
            raise _damaged(f"more than {_MAX_NAMES} names in its directory of packs")
        if len(names) > _MAX_PACKS:
            raise CannotTell("too-large", f"the repository has more than {_MAX_PACKS} packs; git gc makes one of them")
        for name in names:
            try:
                yield _Pack(self._open(f"{name}.idx"), self._open(f"{name}.pack"), oid_bytes)
            except FableExecError as error:
                raise CannotTell("unreadable", str(error)) from error

    def _open(self, name: str) -> int:
        descriptor = self._workspace.open_file(self._path("pack", name))
        self._descriptors.callback(os.close, descriptor)
        return descriptor


@contextlib.contextmanager
def open_objects(workspace: Workspace, components: tuple[str, ...]) -> Iterator[ObjectStore]:
    """The store of the git directory `components`; what it holds open is closed at the end."""
    with contextlib.ExitStack() as descriptors:
        yield ObjectStore(workspace, components, descriptors)


def _parse_loose(stored: bytes, oid: str) -> tuple[str, bytes]:
    stream = zlib.decompressobj()
    try:
        head = stream.decompress(stored, 64)
        written, _, begin = head.partition(b"\0")
        kind, _, number = written.decode("ascii").partition(" ")
        size = int(number)
        if size > MAX_OBJECT_BYTES:
            raise _too_large(oid)
        data = begin + stream.decompress(stream.unconsumed_tail, max(1, size + 1 - len(begin)))
    except (zlib.error, ValueError) as error:
        raise _damaged(f"object {oid} ({error})") from error
    if kind not in _KINDS.values() or len(data) != size:
        raise _damaged(f"object {oid}")
    return kind, data


@attrs.frozen
class _Stored:
    """What stands at one place of a pack: content, or a delta and where its base is."""

    kind: int
    data: bytes
    base_offset: int = 0
    base_name: bytes = b""


class _Pack:
    """One pack and its index, by descriptors that somebody else closes."""

    def __init__(self, index: int, pack: int, oid_bytes: int) -> None:
        self._index = index
        self._pack = pack
        self._oid_bytes = oid_bytes
        if _read_at(index, _FAN_OUT, 0) != b"\xfftOc\0\0\0\2":
            raise _damaged("an index of a pack that is not of version 2")
        self._fan_out = struct.unpack(">256I", _read_at(index, 256 * 4, _FAN_OUT))
        self._count = self._fan_out[255]
        if list(self._fan_out) != sorted(self._fan_out) or self._count * oid_bytes > os.fstat(index).st_size:
            raise _damaged("an index of a pack")

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
            if stored.kind in _KINDS:
                data = stored.data
                for delta in reversed(deltas):
                    data = _apply(delta, data, oid)
                return _KINDS[stored.kind], data
            deltas.append(stored.data)
            made += _made_by(stored.data, oid)
            if sum(map(len, deltas)) > MAX_OBJECT_BYTES or made > _MAX_MADE_BYTES:
                raise _too_large(oid)
            base = self.find(stored.base_name) if stored.base_name else stored.base_offset
            if base is None:
                raise _damaged(f"the pack with {oid} lacks the base of a delta")
            offset = base
        raise _damaged(f"a chain of more than {_MAX_CHAIN} deltas at {oid}")

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
            elif kind not in _KINDS:
                raise ValueError(f"kind {kind}")
            if size > MAX_OBJECT_BYTES:
                raise _too_large(oid)
            return _Stored(kind, self._inflate(offset + position, size), base_offset, base_name)
        except (IndexError, ValueError, zlib.error) as error:
            raise _damaged(f"the pack with {oid} ({error})") from error

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
        raise _damaged(str(error)) from error


def _read_at(descriptor: int, size: int, offset: int) -> bytes:
    data = _read_some(descriptor, size, offset)
    if len(data) != size:
        raise _damaged("a file of a pack ends too early")
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


def _apply(delta: bytes, base: bytes, oid: str) -> bytes:
    try:
        return _applied(delta, base, oid)
    except (IndexError, ValueError) as error:
        raise _damaged(f"a delta of {oid} ({error})") from error


def _made_by(delta: bytes, oid: str) -> int:
    """How many bytes it says that it makes."""
    try:
        return _little_endian(delta, _little_endian(delta, 0)[1])[0]
    except (IndexError, ValueError) as error:
        raise _damaged(f"a delta of {oid} ({error})") from error


def _applied(delta: bytes, base: bytes, oid: str) -> bytes:
    base_size, position = _little_endian(delta, 0)
    size, position = _little_endian(delta, position)
    if base_size != len(base):
        raise ValueError("made for another base")
    if size > MAX_OBJECT_BYTES:
        raise _too_large(oid)
    made = bytearray()
    while position < len(delta):
        order = delta[position]
        position += 1
        if order & 0x80:
            start, position = _chosen_bytes(delta, position, order & 15, 4)
            length, position = _chosen_bytes(delta, position, order >> 4 & 7, 3)
            length = length or 0x10000
            if start + length > len(base):
                raise ValueError("copies from beyond the base")
            made += base[start : start + length]
        elif order:
            made += delta[position : position + order]
            position += order
        else:
            raise ValueError("an order that is reserved")
        if len(made) > size:
            raise ValueError("makes more than it says")
    if len(made) != size:
        raise ValueError("makes less than it says")
    return bytes(made)


def _little_endian(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if not byte & 0x80:
            return value, position
        if shift > 63:
            raise ValueError("a number that is too long")


def _chosen_bytes(data: bytes, position: int, chosen: int, count: int) -> tuple[int, int]:
    """A number of which only the bytes that `chosen` has bits for are written."""
    value = 0
    for number in range(count):
        if chosen >> number & 1:
            value |= data[position] << 8 * number
            position += 1
    return value, position

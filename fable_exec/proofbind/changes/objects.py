"""Objects of a git repository, loose and packed, read without git, and given out only if they are what their name says.

Whoever may write to the workspace may write to its object store: an object whose digest is not its name is no object. Alternate
stores are not looked into, since they lie anywhere.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import zlib
from collections.abc import Iterator

from fable_exec.errors import FableExecError, PathError
from fable_exec.pathguard import Workspace, WorkspacePath
from fable_exec.proofbind.changes.forms import KINDS, MAX_OBJECT_BYTES, damaged, object_id, too_large
from fable_exec.proofbind.changes.packs import Pack
from fable_exec.proofbind.changes.values import CannotTell

__all__ = ["ObjectStore", "open_objects"]

_MAX_NAMES = 10_000
_MAX_PACKS = 200
"""Each holds two descriptors of the host; git makes one pack of 50."""
_HASH_OF_LENGTH = {40: "sha1", 64: "sha256"}


class ObjectStore:
    """Reads objects below one `objects` directory. Made by `open_objects`."""

    def __init__(self, workspace: Workspace, components: tuple[str, ...], descriptors: contextlib.ExitStack) -> None:
        self._workspace = workspace
        self._components = (*components, "objects")
        self._descriptors = descriptors
        self._packs: list[Pack] | None = None

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
            raise damaged(f"what is stored as {oid} is something else")
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
            raise too_large(oid)
        return _parse_loose(content.data, oid)

    def _packed(self, oid: str) -> tuple[str, bytes] | None:
        if self._packs is None:
            self._packs = list(self._open_packs(len(oid) // 2))
        for pack in self._packs:
            offset = pack.find(bytes.fromhex(oid))
            if offset is not None:
                return pack.read(offset, oid)
        return None

    def _open_packs(self, oid_bytes: int) -> Iterator[Pack]:
        try:
            listing = self._workspace.list(self._path("pack"), _MAX_NAMES)
        except PathError:
            return
        names = [entry.name.removesuffix(".idx") for entry in listing.entries if entry.name.endswith(".idx")]
        if listing.truncated:
            raise damaged(f"more than {_MAX_NAMES} names in its directory of packs")
        if len(names) > _MAX_PACKS:
            raise CannotTell("too-large", f"the repository has more than {_MAX_PACKS} packs; git gc makes one of them")
        for name in names:
            try:
                yield Pack(self._open(f"{name}.idx"), self._open(f"{name}.pack"), oid_bytes)
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
            raise too_large(oid)
        data = begin + stream.decompress(stream.unconsumed_tail, max(1, size + 1 - len(begin)))
    except (zlib.error, ValueError) as error:
        raise damaged(f"object {oid} ({error})") from error
    if kind not in KINDS.values() or len(data) != size:
        raise damaged(f"object {oid}")
    return kind, data

"""What a commit holds: every path with its mode and object id, read from verified objects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from fable_exec.proofbind.changes.objects import ObjectStore
from fable_exec.proofbind.changes.values import CannotTell, Deadline

__all__ = ["Blob", "file_mode", "is_below", "is_object_id", "listing"]

_MAX_TAGS = 8
_MAX_PATHS = 1_000_000
_MAX_CHARACTERS = 128 << 20
_MAX_PATH_CHARACTERS = 4096
_OBJECT_ID = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_POINTER = {"commit": "tree", "tag": "object"}
_DIRECTORY = 0o40000
_FILE = 0o100000
_KIND_BITS = 0o170000


class Blob(NamedTuple):
    """What git keeps of one path."""

    mode: int
    oid: str


def is_object_id(text: object) -> bool:
    """Whether it is a full object id. A name, or an expression, means what the repository makes of it today."""
    return isinstance(text, str) and _OBJECT_ID.match(text) is not None


def listing(store: ObjectStore, oid: str, deadline: Deadline) -> dict[str, Blob]:
    """Every path below the commit, tag or tree `oid`.

    Raises:
        CannotTell: as `ObjectStore.read`; `base-missing` where `oid` itself is not there; `deadline`.
    """
    found: dict[str, Blob] = {}
    waiting = [("", "")]  # opened one at a time: a tree can name another that is large many times
    paths = characters = 0
    while waiting:
        prefix, tree = waiting.pop()
        deadline.left()
        for mode, name, child in _entries(_expect(store, tree, "tree") if tree else _tree_of(store, oid), len(oid) // 2):
            path = prefix + name
            paths, characters = paths + 1, characters + len(path)
            if paths > _MAX_PATHS or characters > _MAX_CHARACTERS or len(path) > _MAX_PATH_CHARACTERS:
                raise CannotTell("too-large", "the base has more, or longer, paths than are looked at")
            if mode == _DIRECTORY:
                waiting.append((f"{path}/", child))
            else:
                found[path] = Blob(mode, child)
    return found


def is_below(path: str) -> bool:
    """Whether it is a path of single names: one that leads nowhere but down."""
    return all(name not in ("", ".", "..") for name in path.split("/")) and "\0" not in path


def _tree_of(store: ObjectStore, oid: str) -> bytes:
    try:
        kind, data = store.read(oid)
    except CannotTell as reason:
        if reason.why == "object-missing":
            raise CannotTell("base-missing", f"the repository does not hold the base {oid}") from reason
        raise
    for _ in range(_MAX_TAGS):
        if kind == "tree":
            return data
        word = _POINTER.get(kind)
        pointed = re.match(rf"{word} ([0-9a-f]+)\n".encode(), data)
        if pointed is None or not is_object_id(pointed[1].decode()):
            break
        kind, data = store.read(pointed[1].decode())
    raise CannotTell("base-no-commit", f"the base {oid} is neither a commit nor a tree")


def _expect(store: ObjectStore, oid: str, kind: str) -> bytes:
    found, data = store.read(oid)
    if found != kind:
        raise CannotTell("objects-damaged", f"object {oid} is a {found} where a {kind} should be")
    return data


def _entries(tree: bytes, oid_bytes: int) -> Iterator[tuple[int, str, str]]:
    position = 0
    while position < len(tree):
        end = tree.find(b"\0", position)
        mode, _, raw = tree[position:end].partition(b" ")
        position = end + 1 + oid_bytes
        name = raw.decode("utf-8", "surrogateescape")
        if end < 0 or position > len(tree) or not re.fullmatch(rb"[0-7]{5,6}", mode) or not is_below(name) or "/" in name:
            raise CannotTell("objects-damaged", "a tree of the base is not of its form")
        yield _canonical(int(mode, 8)), name, tree[end + 1 : position].hex()


def _canonical(mode: int) -> int:
    """git once kept more permission bits than it looks at."""
    return file_mode(mode) if mode & _KIND_BITS == _FILE else mode


def file_mode(permissions: int) -> int:
    """The mode that git gives a regular file: only whether its owner may execute it counts."""
    return _FILE | (0o755 if permissions & 0o100 else 0o644)

"""How one entry and a whole manifest are written, in each profile. Pure: facts in, canonical text out.

The text is the digest's input, so there is one way to write each thing: members sorted, no white space. In the profile tree it is
RFC 8785 (JCS), which for strings, small integers and objects is what is written here; loki-v3 is ASCII alone, as Python's `json`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any

import attrs

from fable_exec.treedigest.values import EntryKind, Profile

__all__ = [
    "FORMAT",
    "LOKI",
    "LOKI_EXCLUDED",
    "LOKI_EXCLUDED_AT_TOP",
    "TREE",
    "DirectoryText",
    "Form",
    "canonical_json",
    "engine_row",
    "hashed_row",
    "in_byte_order",
    "loki_bare",
    "loki_excluded",
    "loki_gitlink",
    "loki_manifest",
    "name_json",
    "tree_manifest",
]

FORMAT = "fable-exec-tree/1"
LOKI_EXCLUDED = (".git", ".mypy_cache", ".pytest_cache", ".venv", "__pycache__", "node_modules", "venv")
LOKI_EXCLUDED_AT_TOP = (".git", ".next", ".nuxt", "target")
_ANY_EXECUTE = 0o111
_PERMISSIONS = 0o7777


class _Heads(dict[int, str]):
    """The text before the name of a file's row, by st_mode: there are few modes and many files."""

    def __init__(self, write: Callable[[int], str]) -> None:
        super().__init__()
        self._write = write

    def __missing__(self, mode: int) -> str:
        head = self[mode] = self._write(mode)
        return head


@attrs.frozen(kw_only=True)
class Form:
    """The rows of one profile. A file's row is a `hashed_row` of `heads[st_mode]` and `encode(name)`: a short loop."""

    profile: Profile
    heads: Mapping[int, str]
    encode: Callable[[str], str]
    """A name as JSON; of the whole path where `whole_paths`."""
    whole_paths: bool
    link: Callable[[str, int, str], str]
    """(name or path, st_mode, text of the link) to its row."""
    special: Callable[[str, int, EntryKind, int, int], str]
    """(name or path, st_mode, kind, st_size, st_rdev) to the row of what is neither file, link nor directory."""


def hashed_row(head: str, name: str, sha256: str, size_bytes: int) -> str:
    """The row of what has a content: what comes before the name, the name as JSON, and what the content is."""
    return f'{head}{name},"sha256":"{sha256}","size":{size_bytes}}}'


def in_byte_order(texts: Iterable[str]) -> list[str]:
    """Sorted by their bytes, whatever they are in Unicode."""
    found = list(texts)
    # Code points sort as UTF-8 does, save for the surrogates that stand for other bytes.
    found.sort(key=None if all(map(str.isascii, found)) else _bytes_of)
    return found


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def canonical_json(value: Any) -> str:
    """JCS of strings without lone surrogates, integers below 2^53, booleans, None, arrays and objects with ASCII names."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


# The profile tree


def name_json(name: str) -> str:
    """A string, or {"b": base64url} for bytes that are no UTF-8: no two names are ever written alike."""
    if not name.isascii():
        raw = _bytes_of(name)
        try:
            raw.decode()
        except UnicodeDecodeError:
            return f'{{"b":"{base64.urlsafe_b64encode(raw).decode().rstrip("=")}"}}'
    return encode_basestring(name)


def _tree_head(mode: int) -> str:
    return f'{{"kind":"file","mode":"{mode & _PERMISSIONS:04o}","name":'


def _tree_link(name: str, mode: int, target: str) -> str:
    # The mode of a link means nothing and differs between systems.
    return f'{{"kind":"symlink","name":{name_json(name)},"target":{name_json(target)}}}'


def _tree_special(name: str, mode: int, kind: EntryKind, size: int, device: int) -> str:
    number = f'"device":{device},' if kind in (EntryKind.BLOCK_DEVICE, EntryKind.CHARACTER_DEVICE) else ""
    return f'{{{number}"kind":"{kind.value}","mode":"{mode & _PERMISSIONS:04o}","name":{name_json(name)}}}'


TREE = Form(
    profile=Profile.TREE, heads=_Heads(_tree_head), encode=name_json, whole_paths=False, link=_tree_link, special=_tree_special
)  # fmt: skip


@attrs.frozen
class DirectoryText:
    """One directory of a manifest: its path, st_mode, the rows of what is in it, sorted by name, and its repository's state."""

    path: str
    mode: int
    rows: bytes
    """Rows with commas between."""
    git: Mapping[str, str] | None = None


def tree_manifest(directories: Iterable[DirectoryText], engine_directory: str | None) -> bytes:
    """The manifest: every directory once, sorted by the bytes of its path."""
    by_path = {each.path: each for each in directories}
    engine = "null" if engine_directory is None else name_json(engine_directory)
    written = chain.from_iterable((b",", *_directory_parts(by_path[path])) for path in in_byte_order(by_path))
    next(written, None)  # no comma before the first
    end = f'],"engine_directory":{engine},"format":"{FORMAT}"}}'
    return b"".join((b'{"directories":[', *written, end.encode()))


def _directory_parts(found: DirectoryText) -> tuple[bytes, bytes, bytes]:
    """The text in parts: most of it is `rows`, and is copied once, into the manifest."""
    git = "" if found.git is None else f'"git":{canonical_json(dict(found.git))},'
    mode = f"{found.mode & _PERMISSIONS:04o}"
    return b'{"entries":[', found.rows, f'],{git}"mode":"{mode}","path":{name_json(found.path)}}}'.encode()


def engine_row(name: str) -> str:
    """That the engine's own directory is there."""
    return f'{{"kind":"{EntryKind.ENGINE.value}","name":{name_json(name)}}}'


# The profile loki-v3


def _executable(mode: int) -> str:
    return "true" if mode & _ANY_EXECUTE else "false"


def _loki_head(mode: int) -> str:
    return f'{{"executable":{_executable(mode)},"kind":"file","path":'


def _loki_link(path: str, mode: int, target: str) -> str:
    raw = _bytes_of(target)
    head = f'{{"executable":{_executable(mode)},"kind":"symlink","path":'
    return hashed_row(head, encode_basestring_ascii(path), hashlib.sha256(raw).hexdigest(), len(raw))


def _loki_special(path: str, mode: int, kind: EntryKind, size: int, device: int) -> str:
    return f'{{"executable":{_executable(mode)},"kind":"other","path":{encode_basestring_ascii(path)},"size":{size}}}'


LOKI = Form(
    profile=Profile.LOKI_V3, heads=_Heads(_loki_head), encode=encode_basestring_ascii, whole_paths=True,
    link=_loki_link, special=_loki_special,
)  # fmt: skip


def loki_bare(path: str, kind: EntryKind) -> str:
    """The row of what is missing or cannot be read."""
    return f'{{"kind":"{kind.value}","path":{encode_basestring_ascii(path)}}}'


def loki_gitlink(path: str, stages: Iterable[tuple[int, str]], head_oid: str, worktree_sha256: str) -> str:
    """The row of a submodule; `stages` are (stage, object id) of its lines in the index."""
    index = [{"stage": str(stage), "oid": oid} for stage, oid in stages]
    members = {"kind": "gitlink", "path": path, "index": index, "head_oid": head_oid, "worktree_sha256": worktree_sha256}
    return json.dumps(members, sort_keys=True, separators=(",", ":"))


def loki_excluded(engine_directory: str | None) -> tuple[str, ...]:
    """Directories at the top that the walk does not enter."""
    return tuple(sorted({*LOKI_EXCLUDED_AT_TOP, *([engine_directory] if engine_directory else [])}))


def loki_manifest(paths: Sequence[str], rows: Sequence[str], engine_directory: str | None) -> bytes:
    """The manifest of all rows, each with its path in the same place of `paths`; sorted by code points."""
    at_top = json.dumps(loki_excluded(engine_directory), separators=(",", ":"))
    anywhere = json.dumps(LOKI_EXCLUDED, separators=(",", ":"))
    rules = f'"excluded_walk_directories":{anywhere},"filesystem_walk_excluded_top_level_directories":{at_top},"version":3'
    entries = [rows[number] for number in sorted(range(len(paths)), key=paths.__getitem__)] or [""]
    entries[0] = '{"entries":[' + entries[0]  # around all of it would be one more copy
    entries[-1] += f"],{rules}}}"
    return ",".join(entries).encode("ascii")

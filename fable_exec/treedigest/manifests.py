"""A manifest: its canonical bytes, whose SHA-256 is the tree's digest, and what they say. Pure.

The bytes are the truth and are kept as they are; entries are read from them when somebody asks.
"""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from fable_exec.errors import StateUnreadable
from fable_exec.treedigest.forms import FORMAT, LOKI_EXCLUDED_AT_TOP, canonical_json, loki_manifest, name_json, tree_manifest
from fable_exec.treedigest.values import Entry, EntryKind, Profile, is_one_name

__all__ = ["Manifest"]


@attrs.frozen(slots=False)
class Manifest:
    """A whole manifest. `sha256sum` of a file with `data` in it is the digest of the tree."""

    data: bytes = attrs.field(repr=False)

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "manifest") -> Manifest:
        """One that somebody kept.

        Args:
            name: of the file, for messages.

        Raises:
            StateUnreadable: it is `torn` (no JSON), `foreign` (no manifest, or not written as one is) or `newer`.
        """
        manifest = cls(data)
        try:
            manifest.entries  # noqa: B018  # reads all of it
        except StateUnreadable as error:
            raise StateUnreadable(f"{name}: {error}", reason=error.reason, path=name) from error
        return manifest

    @functools.cached_property
    def sha256(self) -> str:
        """The digest of the tree."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def profile(self) -> Profile:
        """Which profile wrote it."""
        return Profile.LOKI_V3 if "version" in self._document else Profile.TREE

    @property
    def rules(self) -> Mapping[str, Any]:
        """What it was made by: all its members but the entries."""
        return _rules(self._document)

    @property
    def engine_directory(self) -> str | None:
        """The directory at the top whose content it leaves out."""
        return _engine_directory(self._document)

    @functools.cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Every path that it binds, in its own order."""
        read = _loki_entries if self.profile is Profile.LOKI_V3 else _tree_entries
        try:
            return tuple(read(self._document))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _unreadable("foreign", f"an entry is not of its form ({type(error).__name__})") from error

    @functools.cached_property
    def _document(self) -> dict[str, Any]:
        try:
            document = json.loads(self.data)
        except (ValueError, RecursionError) as error:
            raise _unreadable("torn", "it is not JSON") from error
        if not isinstance(document, dict):
            raise _unreadable("foreign", "it is no object")
        try:
            self._refuse_other_forms(document)
        except StateUnreadable:
            raise
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise _unreadable("foreign", f"a member is not of its form ({type(error).__name__})") from error
        return document

    def _refuse_other_forms(self, document: dict[str, Any]) -> None:
        """The very bytes that this library writes for it: two spellings of one manifest would have two digests."""
        if document.get("version") == 3:
            empty = loki_manifest((), (), _engine_directory(document))
            written = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        elif document.get("format") == FORMAT:
            empty = tree_manifest((), _engine_directory(document))
            written = canonical_json(document).encode()
        else:
            newer = str(document.get("format", "")).startswith(FORMAT.partition("/")[0])
            raise _unreadable("newer" if newer else "foreign", "it names no format that is known here")
        if written != self.data or canonical_json(_rules(document)) != canonical_json(_rules(json.loads(empty))):
            raise _unreadable("foreign", "it is not written in the canonical way, or by rules that are not known here")


def _unreadable(reason: str, what: str) -> StateUnreadable:
    return StateUnreadable(f"a manifest of a tree ({reason}): {what}", reason=reason)


def _rules(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in ("directories", "entries")}


def _engine_directory(document: Mapping[str, Any]) -> str | None:
    if "version" not in document:
        written = document.get("engine_directory")
        name = None if written is None else _name(written)
    else:
        at_top = document.get("filesystem_walk_excluded_top_level_directories", [])
        name = next((name for name in at_top if name not in LOKI_EXCLUDED_AT_TOP), None)
    if name is not None and not is_one_name(name):
        raise ValueError("the engine's directory is no single name")
    return name


_NAME = (str, dict)
"""A text, or an object with the bytes."""
_SPECIAL: dict[str, tuple[type, ...]] = {"kind": (str,), "mode": (str,), "name": _NAME}
_TREE_ROWS: dict[str, dict[str, tuple[type, ...]]] = {
    "file": {**_SPECIAL, "sha256": (str,), "size": (int,)},
    "symlink": {"kind": (str,), "name": _NAME, "target": _NAME},
    "engine": {"kind": (str,), "name": _NAME},
    **dict.fromkeys(("fifo", "socket", "other"), _SPECIAL),
    **{kind: {**_SPECIAL, "device": (int,)} for kind in ("block-device", "character-device")},
}
_BARE: dict[str, tuple[type, ...]] = {"kind": (str,), "path": (str,)}
_SIZED: dict[str, tuple[type, ...]] = {**_BARE, "executable": (bool,), "size": (int,)}
_LOKI_ROWS: dict[str, dict[str, tuple[type, ...]]] = {
    **{kind: {**_SIZED, "sha256": (str,)} for kind in ("file", "symlink")},
    "other": _SIZED,
    **dict.fromkeys(("missing", "unreadable"), _BARE),
    "gitlink": {**_BARE, "head_oid": (str,), "index": (list,), "worktree_sha256": (str,)},
}


def _kind(row: dict[str, Any], forms: Mapping[str, Mapping[str, tuple[type, ...]]]) -> EntryKind:
    """Of a row that has all members of its kind and no other: what nobody reads would make two manifests of one meaning."""
    form = forms[row["kind"]]
    if row.keys() != form.keys() or not all(type(row[name]) in types for name, types in form.items()):
        raise ValueError("a row that is not of its kind")
    return EntryKind(row["kind"])


def _require_order(paths: Iterable[str]) -> None:
    """Raise ValueError where one is twice, or they are not sorted by their bytes."""
    raw = [path.encode("utf-8", "surrogateescape") for path in paths]
    if not all(before < after for before, after in itertools.pairwise(raw)):
        raise ValueError("out of order")


def _tree_entries(document: dict[str, Any]) -> Iterator[Entry]:
    _require_order(_name(directory["path"]) for directory in document["directories"])
    directories = {_name(directory["path"]) for directory in document["directories"]}
    for directory in document["directories"]:
        if not directory.keys() - {"git"} == {"entries", "mode", "path"} or not isinstance(directory["mode"], str):
            raise ValueError("a directory that is not of its form")
        path = _name(directory["path"])
        yield Entry(path=path, kind=EntryKind.DIRECTORY, mode=directory["mode"])
        if "git" in directory:
            yield Entry(path=_below(path, ".git"), kind=EntryKind.GIT, content=canonical_json(directory["git"]))
        found = [_tree_entry(path, row) for row in directory["entries"]]
        _require_order(entry.path for entry in found)
        if not directories.isdisjoint(entry.path for entry in found):
            raise ValueError("a name that is a directory and something else")
        yield from found


def _tree_entry(directory: str, row: dict[str, Any]) -> Entry:
    kind, name, content = _kind(row, _TREE_ROWS), _name(row["name"]), row.get("sha256", "")
    if "/" in name or name in ("", ".", ".."):
        raise ValueError("a name that is a path")
    if "target" in row:
        content = _name(row["target"])
    elif "device" in row:
        content = str(row["device"])
    return Entry(
        path=_below(directory, name), kind=kind, mode=row.get("mode", ""), content=content, size_bytes=row.get("size"),
    )  # fmt: skip


def _name(written: Any) -> str:
    """A name as it was: a string, or an object with its bytes, lone surrogates standing for those."""
    if isinstance(written, str):
        written.encode()  # what cannot be is not written so
        return written
    try:
        raw = base64.urlsafe_b64decode(written["b"] + "=" * (-len(written["b"]) % 4))
    except binascii.Error as error:
        raise ValueError("no base64url") from error
    name = raw.decode("utf-8", "surrogateescape")
    if name_json(name) != canonical_json(written):
        raise ValueError("a name that is written in another way than it should be")
    return name


def _below(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def _loki_entries(document: dict[str, Any]) -> Iterator[Entry]:
    if not all(before < after for before, after in itertools.pairwise(row["path"] for row in document["entries"])):
        raise ValueError("out of order")
    for row in document["entries"]:
        kind = _kind(row, _LOKI_ROWS)
        content = row.get("sha256", "")
        if kind is EntryKind.GITLINK:
            content = canonical_json({name: row[name] for name in ("head_oid", "index", "worktree_sha256")})
        mode = "" if "executable" not in row else "x" if row["executable"] else "-"
        yield Entry(path=row["path"], kind=kind, mode=mode, content=content, size_bytes=row.get("size"))

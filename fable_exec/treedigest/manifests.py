"""A manifest: its canonical bytes, whose SHA-256 is the tree's digest, and what they say. Pure.

The bytes are the truth and are kept as they are; entries are read from them when somebody asks.
"""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from fable_exec.errors import StateUnreadable
from fable_exec.treedigest.forms import FORMAT, LOKI_EXCLUDED_AT_TOP, canonical_json, name_json
from fable_exec.treedigest.values import Entry, EntryKind, Profile

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
        return {name: value for name, value in self._document.items() if name not in ("directories", "entries")}

    @property
    def engine_directory(self) -> str | None:
        """The directory at the top whose content it leaves out."""
        if self.profile is Profile.TREE:
            return self._document.get("engine_directory")
        at_top = self._document.get("filesystem_walk_excluded_top_level_directories", [])
        return next((name for name in at_top if name not in LOKI_EXCLUDED_AT_TOP), None)

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
        self._refuse_other_forms(document)
        return document

    def _refuse_other_forms(self, document: dict[str, Any]) -> None:
        """The very bytes that this library writes for it: two spellings of one manifest would have two digests."""
        if document.get("version") == 3:
            written = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        elif document.get("format") == FORMAT:
            written = canonical_json(document).encode("utf-8", "surrogatepass")
        else:
            newer = str(document.get("format", "")).startswith(FORMAT.partition("/")[0])
            raise _unreadable("newer" if newer else "foreign", "it names no format that is known here")
        if written != self.data:
            raise _unreadable("foreign", "it is not written in the canonical way")


def _unreadable(reason: str, what: str) -> StateUnreadable:
    return StateUnreadable(f"a manifest of a tree ({reason}): {what}", reason=reason)


def _tree_entries(document: dict[str, Any]) -> Iterator[Entry]:
    for directory in document["directories"]:
        path = _name(directory["path"])
        yield Entry(path=path, kind=EntryKind.DIRECTORY, mode=directory["mode"])
        if "git" in directory:
            yield Entry(path=_below(path, ".git"), kind=EntryKind.GIT, content=canonical_json(directory["git"]))
        for row in directory["entries"]:
            yield _tree_entry(path, row)


def _tree_entry(directory: str, row: dict[str, Any]) -> Entry:
    content = row.get("sha256", "")
    if "target" in row:
        content = _name(row["target"])
    elif "device" in row:
        content = str(row["device"])
    return Entry(
        path=_below(directory, _name(row["name"])), kind=EntryKind(row["kind"]), mode=row.get("mode", ""), content=content,
        size_bytes=row.get("size"),
    )  # fmt: skip


def _name(written: Any) -> str:
    """A name as it was: a string, or an object with its bytes, lone surrogates standing for those."""
    if isinstance(written, str):
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
    for row in document["entries"]:
        kind = EntryKind(row["kind"])
        content = row.get("sha256", "")
        if kind is EntryKind.GITLINK:
            content = canonical_json({name: row[name] for name in ("head_oid", "index", "worktree_sha256")})
        mode = "" if "executable" not in row else "x" if row["executable"] else "-"
        yield Entry(path=row["path"], kind=kind, mode=mode, content=content, size_bytes=row.get("size"))

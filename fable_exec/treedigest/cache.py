"""Rows of files that were read before, by what stat says of them: a hint that saves reading an unchanged tree.

A file that changes always gets another ctime, so one with the same stamps has the same content: unless a process writes to it
through a mapping, the clock was set back, or the cache was forged. So it is for progress and differences, never for a digest that
is to bind something. The cache is private to the user (0600 in 0700) and lies outside the workspace.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import time
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from fable_exec.errors import StateUnreadable
from fable_exec.pathguard import Workspace, WorkspacePath
from fable_exec.privatefiles import directory_fault_of, fault_of
from fable_exec.treedigest.watching import STAMP_NUMBERS, could_hide_a_change, stamps_of

__all__ = ["DigestCache"]

_FORMAT = "fable-exec-digest-cache/1"
_MAX_BYTES = 1 << 30
_MAX_DIRECTORIES = 4_000_000
_DIGEST_BYTES = 32
_LENGTHS = struct.Struct("<QIIII")
_NEVER = array("q", [-1] * STAMP_NUMBERS)


@attrs.frozen
class _Kept:
    """One directory: its device, the names of its leaves, their stamps, their rows; joined, to be compared whole."""

    device: int
    names: bytes
    stamps: bytes
    rows: bytes


class DigestCache:
    """A cache in the file `path`, of one workspace and one profile; for another one it is as if empty.

    Args:
        path: in a directory of this user with the mode 0700, outside the workspace. The file is made when it is first needed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.listings: dict[str, str] = {}
        """Digests of what git indexes list, by the SHA-256 of the index."""
        self._identity: dict[str, Any] = {}
        self._known: dict[str, _Kept] = {}
        self._met: dict[str, _Kept] = {}
        self._began_ns = 0
        self._changed = False

    @contextlib.contextmanager
    def used_for(self, workspace: Workspace, rules: dict[str, Any]) -> Iterator[None]:
        """Load what is known, for one digest, and write what was learnt once it could be made; a lost write only costs time.

        Raises:
            StateUnreadable: the file or its directory is not private (`not-private`). What is torn or foreign counts as empty.
            ValueError: it lies in the workspace.
        """
        self._refuse_inside(workspace)
        self._identity = {"format": _FORMAT, "root": list(workspace.identity), **rules}
        self._began_ns = time.time_ns()
        self._known, self._met, self.listings, self._changed = {}, {}, {}, False
        data = self._load()
        with contextlib.suppress(ValueError, struct.error, KeyError, TypeError):
            self._known, self.listings = self._decode(data)
        before = dict(self.listings)
        yield
        if self._changed or self._met.keys() != self._known.keys() or before != self.listings:
            with contextlib.suppress(OSError):
                self._save(self._encode())

    def rows(self, path: str, device: int, names: list[str], statuses: Sequence[os.stat_result]) -> list[str | None] | None:
        """The rows of what has not changed, None in the place of each that has; None where nothing of the directory is known."""
        kept = self._known.get(path)
        if kept is None or kept.device != device:
            return None
        if kept.names == _joined(names) and kept.stamps == stamps_of(statuses).tobytes():
            self._met[path] = kept
            return list(kept.rows.decode().split("\n")) if names else []
        return self._rows_one_by_one(kept, names, statuses)

    def _rows_one_by_one(self, kept: _Kept, names: list[str], statuses: Sequence[os.stat_result]) -> list[str | None]:
        size = STAMP_NUMBERS * 8
        stamps = (kept.stamps[at : at + size] for at in range(0, len(kept.stamps), size))
        known = dict(
            zip(os.fsdecode(kept.names).split("/"), zip(stamps, kept.rows.decode().split("\n"), strict=True), strict=True)
        )
        found: list[str | None] = []
        for name, status in zip(names, statuses, strict=True):
            old_stamps, row = known.get(name, (b"", ""))
            found.append(row if old_stamps == stamps_of([status]).tobytes() else None)
        return found

    def keep(self, path: str, device: int, names: list[str], statuses: Sequence[os.stat_result], rows: list[str]) -> None:
        """Note what was read; a file that may since have changed behind its stamps is noted such that it will be read again."""
        stamps = stamps_of(statuses)
        for number, status in enumerate(statuses):
            if could_hide_a_change(status.st_ctime_ns, self._began_ns):
                stamps[number * STAMP_NUMBERS : (number + 1) * STAMP_NUMBERS] = _NEVER
        self._met[path] = _Kept(device, _joined(names), stamps.tobytes(), "\n".join(rows).encode("utf-8", "surrogatepass"))
        self._changed = True

    def _refuse_inside(self, workspace: Workspace) -> None:
        place = os.path.realpath(self.path)
        while place != os.path.dirname(place):
            place = os.path.dirname(place)
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(place)
                if (status.st_dev, status.st_ino) == workspace.identity:
                    raise ValueError(f"the digest cache {str(self.path)!r} lies in the workspace, whose files could forge it")

    def _load(self) -> bytes:
        """The content of the file, b"" where there is none; read through its directory, held."""
        with Workspace.open(self.path.parent) as directory:
            if fault := directory_fault_of(os.fstat(directory.fd)):
                raise self._not_private(fault.value)
            try:
                fd = directory.open_file(WorkspacePath(components=(self.path.name,)))
            except FileNotFoundError:
                return b""
            try:
                status = os.fstat(fd)
                if fault := fault_of(status):
                    raise self._not_private(fault.value)
                return os.read(fd, status.st_size + 1) if status.st_size <= _MAX_BYTES else b""
            finally:
                os.close(fd)

    def _not_private(self, what: str) -> StateUnreadable:
        return StateUnreadable(f"digest cache {str(self.path)!r}: {what}", reason="not-private", path=str(self.path))

    def _save(self, data: bytes) -> None:
        with Workspace.open(self.path.parent) as directory:
            directory.write_replace(WorkspacePath(components=(self.path.name,)), data, make_parents=False, new_mode=0o600)

    def _encode(self) -> bytes:
        header = {**self._identity, "listings": self.listings, "directories": len(self._met)}
        parts = [json.dumps(header).encode(), b"\n"]
        for path, kept in self._met.items():
            raw = os.fsencode(path)
            parts += [
                _LENGTHS.pack(kept.device, len(raw), len(kept.names), len(kept.stamps), len(kept.rows)),
                raw, kept.names, kept.stamps, kept.rows,
            ]  # fmt: skip
        body = b"".join(parts)
        return body + hashlib.sha256(body).digest()

    def _decode(self, data: bytes) -> tuple[dict[str, _Kept], dict[str, str]]:
        """Raises ValueError, struct.error, KeyError or TypeError for what is not one of this workspace."""
        if hashlib.sha256(memoryview(data)[:-_DIGEST_BYTES]).digest() != data[-_DIGEST_BYTES:]:
            raise ValueError("torn")
        position = data.index(b"\n") + 1
        header = json.loads(data[:position])
        if {name: header.get(name) for name in self._identity} != self._identity or header["directories"] > _MAX_DIRECTORIES:
            raise ValueError("of another workspace, or made by other rules")
        found: dict[str, _Kept] = {}
        for _ in range(header["directories"]):
            device, *lengths = _LENGTHS.unpack_from(data, position)
            position += _LENGTHS.size
            parts = []
            for length in lengths:
                parts.append(data[position : position + length])
                position += length
            path, names, stamps, rows = parts
            count = names.count(b"/") + 1 if names else 0
            if len(stamps) != count * STAMP_NUMBERS * 8 or (rows.count(b"\n") + 1 if rows else 0) != count:
                raise ValueError("not one stamp and one row for each name")
            found[os.fsdecode(path)] = _Kept(device, names, stamps, rows)
        return found, dict(header["listings"])


def _joined(names: list[str]) -> bytes:
    return os.fsencode("/".join(names))

"""What was read before, by what stat says of it: a hint that saves listing and reading an unchanged tree.

A file that changes always gets another ctime, so one with the same stamps has the same content, and a directory the same names:
unless a process writes to it through a mapping, the clock was set back, or the cache was forged. So it is for progress and
differences, never for a digest that is to bind something. The cache is private to the user (0600 in 0700) and lies outside the
workspace.
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
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import attrs

from fable_exec.errors import PathDenied, PathIsDirectory, StateUnreadable
from fable_exec.pathguard import Workspace, WorkspacePath
from fable_exec.privatefiles import directory_fault_of, fault_of
from fable_exec.sha256text import is_sha256
from fable_exec.treedigest.values import are_names
from fable_exec.treedigest.watching import (
    NO_STATUS,
    STAMP_NUMBERS,
    could_hide_a_change,
    could_hide_a_name,
    stamps_of,
    statuses_now,
)

__all__ = ["DigestCache"]

_FORMAT = "fable-exec-digest-cache/2"
_MAX_BYTES = 1 << 30
_MAX_DIRECTORIES = 4_000_000
_DIGEST_BYTES = 32
_LENGTHS = struct.Struct("<QIIIIII")
_STAMP_BYTES = STAMP_NUMBERS * 8
_NEVER = array("q", [-1] * STAMP_NUMBERS)


@attrs.frozen
class _Kept:
    """One directory: its device, its stamp, the names of directories in it; of its leaves names, stamps and rows, each joined."""

    device: int
    stamp: bytes
    """Empty where the names are not all of them, or could change behind it."""
    directories: bytes
    names: bytes
    stamps: bytes
    rows: bytes

    @classmethod
    def of(cls, record: memoryview | bytes) -> _Kept:
        """What a whole record says. The rest of the file is not copied for it."""
        data = bytes(record)
        device, *lengths = _LENGTHS.unpack_from(data)
        ends = [*accumulate(lengths, initial=_LENGTHS.size)][1:]  # the first text is the path
        return cls(device, *[data[start:end] for start, end in pairwise(ends)])

    def record(self, path: str) -> bytes:
        """How the file has it, by the path of the directory."""
        texts = (os.fsencode(path), self.stamp, self.directories, self.names, self.stamps, self.rows)
        return b"".join((_LENGTHS.pack(self.device, *map(len, texts)), *texts))


@attrs.frozen
class Unchanged:
    """A directory that is as it was: the names in it, and the rows of the leaves, one a line."""

    directories: list[str]
    names: list[str]
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
        self._known: dict[str, memoryview] = {}
        """The records of the file."""
        self._met: dict[str, memoryview | bytes] = {}
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
        reader = [os.getegid(), *sorted(os.getgroups())]  # who may read what; the user owns the file
        self._identity = {"format": _FORMAT, "root": list(workspace.identity), "reader": reader, **rules}
        self._began_ns = time.time_ns()
        self._known, self._met, self.listings, self._changed = {}, {}, {}, False
        data = self._load()
        with contextlib.suppress(ValueError, struct.error, KeyError, TypeError, RecursionError):
            self._known, self.listings = self._decode(data)
        before = dict(self.listings)
        yield
        if self._changed or self._met.keys() != self._known.keys() or before != self.listings:
            with contextlib.suppress(OSError):
                self._save(self._encode())

    def unchanged(self, path: str, fd: int, status: os.stat_result) -> Unchanged | None:
        """The directory `fd`, of which fstat says `status`, by a look at each leaf alone; None if it is not as it was."""
        record = self._known.get(path)
        if record is None:
            return None
        kept = _Kept.of(record)
        if kept.device != status.st_dev or kept.stamp != stamps_of([status]).tobytes() or not _is_ours(kept):
            return None
        names = _apart(kept.names)
        statuses = statuses_now(fd, names)
        if statuses is None or kept.stamps != stamps_of(statuses).tobytes():
            return None
        self._met[path] = record
        return Unchanged(_apart(kept.directories), names, kept.rows)

    def rows(self, path: str, device: int, names: list[str], statuses: Sequence[os.stat_result]) -> list[str | None]:
        """The rows of leaves that have not changed, None in the place of others."""
        record = self._known.get(path)
        kept = None if record is None else _Kept.of(record)
        if kept is None or kept.device != device or not kept.names or not _is_ours(kept):
            return [None] * len(names)
        old_names = _apart(kept.names)
        old_stamps = [kept.stamps[at : at + _STAMP_BYTES] for at in range(0, len(kept.stamps), _STAMP_BYTES)]
        known = dict(zip(zip(old_names, old_stamps, strict=True), kept.rows.decode().split("\n"), strict=True))
        return [known.get((name, stamps_of([status]).tobytes())) for name, status in zip(names, statuses, strict=True)]

    def keep(
        self,
        path: str,
        status: os.stat_result,
        directories: list[str] | None,
        names: list[str],
        statuses: Sequence[os.stat_result],
        rows: list[str],
    ) -> None:
        """Note a directory; what may since have changed behind its stamps is noted such that it will be read again.

        Args:
            status: of before it was listed.
            statuses: NO_STATUS for a leaf that has to be read anew in any case.
            directories: names of those in it; None where it has to be listed anew in any case.
        """
        stamps = stamps_of(statuses)
        for number, leaf in enumerate(statuses):
            if leaf is NO_STATUS or could_hide_a_change(leaf.st_ctime_ns, self._began_ns):
                stamps[number * STAMP_NUMBERS : (number + 1) * STAMP_NUMBERS] = _NEVER
        listed_anew = directories is None or could_hide_a_name(status.st_ctime_ns, self._began_ns)
        stamp = b"" if listed_anew else stamps_of([status]).tobytes()
        kept = _Kept(
            status.st_dev, stamp, _joined(directories or []), _joined(names), stamps.tobytes(), "\n".join(rows).encode()
        )  # fmt: skip
        record = self._met[path] = kept.record(path)
        self._changed = self._changed or record != bytes(self._known.get(path, b""))

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
            except (PathDenied, PathIsDirectory) as error:
                raise self._not_private("it is not a regular file") from error
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
        body = b"".join((json.dumps(header).encode(), b"\n", *self._met.values()))
        return body + hashlib.sha256(body).digest()

    def _decode(self, data: bytes) -> tuple[dict[str, memoryview], dict[str, str]]:
        """Raises ValueError, struct.error, KeyError, TypeError or RecursionError for what is not one of this workspace."""
        view = memoryview(data)
        if hashlib.sha256(view[:-_DIGEST_BYTES]).digest() != data[-_DIGEST_BYTES:]:
            raise ValueError("torn")
        position = data.index(b"\n") + 1
        header = json.loads(data[:position])
        if {name: header[name] for name in self._identity} != self._identity or header["directories"] > _MAX_DIRECTORIES:
            raise ValueError("of another workspace, or made by other rules")
        found: dict[str, memoryview] = {}
        for _ in range(header["directories"]):
            _, *lengths = _LENGTHS.unpack_from(data, position)
            start, names = position, position + _LENGTHS.size
            position = names + sum(lengths)
            found[os.fsdecode(data[names : names + lengths[0]])] = view[start:position]
        if position != len(data) - _DIGEST_BYTES:
            raise ValueError("not as long as it says")
        listings = dict(header["listings"])
        if not all(map(is_sha256, listings.values())):
            raise ValueError("we did not write that")
        return found, listings


def _is_ours(kept: _Kept) -> bool:
    """Whether `keep` can have written it: what has the right sums may still be anybody's who could sum."""
    names = kept.names.count(b"/") + 1 if kept.names else 0
    rows = kept.rows.count(b"\n") + 1 if kept.rows else 0
    if not names == rows == len(kept.stamps) / _STAMP_BYTES:
        return False
    return all(are_names(joined) for joined in (kept.names, kept.directories) if joined) and _is_text(kept.rows)


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _joined(names: list[str]) -> bytes:
    return os.fsencode("/".join(names))


def _apart(joined: bytes) -> list[str]:
    return os.fsdecode(joined).split("/") if joined else []

"""One directory at a time: listed, its files read, each thing written as a row. What of it is bound is for the profiles to say.

Directories are opened anew from the workspace when their turn comes, by pathguard, so no number of levels holds descriptors and
nothing leads out.
"""

from __future__ import annotations

import copy
import functools
import os
import stat as stat_bits
from collections.abc import Callable
from operator import attrgetter

import attrs

from fable_exec.errors import PathDenied, PathError, PathNotDirectory, PathNotFound, TreeUnstable
from fable_exec.pathguard import Workspace, WorkspacePath
from fable_exec.pathguard.directories import HeldDirectory
from fable_exec.pathguard.facts import fact, translated
from fable_exec.pathguard.reasons import shown
from fable_exec.treedigest.cache import DigestCache
from fable_exec.treedigest.forms import Form, hashed_row
from fable_exec.treedigest.reading import Moving, Reader
from fable_exec.treedigest.values import EntryKind, Progress
from fable_exec.treedigest.watching import NO_STATUS, Seen, Watch, stamp_of, stamps_of

__all__ = ["EndedByCaller", "Scanned", "Scanner", "unstable"]

MAX_PATH_BYTES = 512 << 20
"""Of all directories together, and of files where rows have whole paths: many levels are small on a disk, and large in memory."""
_LEVEL_BYTES = 8
_GONE_OR_SWAPPED = ("not-found", "not-a-directory", "invalid")
"""Reasons of what was listed a moment ago; the last is readlink(2) of what is no link any more."""
_name_of = attrgetter("name")
_SPECIAL = {
    stat_bits.S_IFIFO: EntryKind.FIFO,
    stat_bits.S_IFSOCK: EntryKind.SOCKET,
    stat_bits.S_IFBLK: EntryKind.BLOCK_DEVICE,
    stat_bits.S_IFCHR: EntryKind.CHARACTER_DEVICE,
}


_WHY = {
    "changed": "changed while the tree was read; wait until nothing writes to it",
    "writer": "is open for writing or mapped by a process, which could change it unseen; end that process, or use level 'fast'",
    "unproven": "may be open for writing, the system does not tell; use level 'stable'",
}


def unstable(*paths: str, reason: str = "changed") -> TreeUnstable:
    """The error for paths that do not hold still."""
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return TreeUnstable(f"no digest ({reason}): {shown(paths[0])}{more} {_WHY[reason]}", reason=reason, paths=paths)


class EndedByCaller(Exception):
    """What whoever was told raised, its first argument: nothing here may take it for an answer of the file system."""


@attrs.frozen
class Scanned:
    """One directory: what fstat says of it, the names in it by what is to be done with them, and the rows of its leaves."""

    status: os.stat_result
    directories: list[str]
    names: list[str]
    """Of what is no directory, sorted as text is."""
    paths: list[str]
    """The same as rows have them: from the top, or names alone."""
    rows: list[str] | bytes
    """In the order of `names`: as they were read, or one a line as the cache has them."""

    def lines(self) -> list[str]:
        """The rows, each by itself."""
        if isinstance(self.rows, bytes):
            return self.rows.decode().split("\n") if self.names else []
        return self.rows

    def joined(self) -> bytes:
        """The rows with commas between."""
        return self.rows.replace(b"\n", b",") if isinstance(self.rows, bytes) else ",".join(self.rows).encode()


@attrs.frozen
class _Listed:
    """A held directory that was listed."""

    directory: HeldDirectory
    components: tuple[str, ...]
    path: str
    status: os.stat_result
    entries: list[os.DirEntry[str]]
    leaves: list[os.DirEntry[str]]
    names: list[str]
    """Of the leaves."""
    paths: list[str]
    """The same as rows have them."""


class _Tally:
    """How much was read, told to whoever wants to know."""

    def __init__(self, on_progress: Callable[[Progress], None] | None) -> None:
        self.files = 0
        self.size_bytes = 0
        self.path_bytes = 0
        self._on_progress = on_progress

    def tell(self, part_bytes: int = 0) -> None:
        """With `part_bytes` of a file that is not done."""
        if self._on_progress is not None:
            try:
                self._on_progress(Progress(files=self.files, size_bytes=self.size_bytes + part_bytes))
            except Exception as error:
                raise EndedByCaller(error) from error


class Scanner:
    """Reads directories of one workspace for one profile; paths in rows are relative to the directory `top`.

    Args:
        reader: reads the files.
        watch: notes what was read, to look at it again; None where nobody will.
        cache: what was read before; None to read everything.
        on_progress: called in the calling thread, after each directory and now and then within whatever may take long.
        skip_unreadable: gives the row of what this user may not read, by its name or path; None to raise.
    """

    def __init__(
        self,
        workspace: Workspace,
        form: Form,
        *,
        reader: Reader,
        watch: Watch | None = None,
        cache: DigestCache | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        skip_unreadable: Callable[[str], str] | None = None,
    ) -> None:
        self.workspace = workspace
        self.top: tuple[str, ...] = ()
        self.watch = watch
        self._form = form
        self._cache = cache
        self._skip_unreadable = skip_unreadable
        self._tally = _Tally(on_progress)
        self.reader = reader
        reader.on_part = self._tally.tell

    def nested(self, top: tuple[str, ...]) -> Scanner:
        """The same for a tree within this one; what was read is counted and noted together."""
        scanner = copy.copy(self)
        scanner.top = top
        return scanner

    def tell(self) -> None:
        """How far it is, to whoever wants to know and may want to end it."""
        self._tally.tell()

    def scan(self, components: tuple[str, ...], leave_out: frozenset[str] = frozenset()) -> Scanned:
        """List the directory `components` below the top and read what is in it, but no other directory.

        Args:
            leave_out: names that are neither read nor given out.

        Raises:
            TreeUnstable: it, or something in it, does not hold still.
            PathError: it cannot be read.
        """
        path = "/".join(components)
        fd = self._open((*self.top, *components))
        try:
            with translated(path or "."):
                return self._scan_held(HeldDirectory(fd), components, path, leave_out)
        except Moving as moving:
            raise unstable("/".join((*self.top, *components, moving.name)), reason=moving.reason) from moving
        except PathError as error:
            if error.reason in _GONE_OR_SWAPPED:
                raise unstable("/".join((*self.top, *components))) from error
            raise
        finally:
            os.close(fd)

    def _open(self, components: tuple[str, ...]) -> int:
        try:
            return self.workspace.open_directory(WorkspacePath(components=components))
        except (PathNotFound, PathNotDirectory, PathDenied) as error:
            if not components:
                raise
            raise unstable("/".join(components)) from error  # it was there when its parent was listed

    def _scan_held(self, directory: HeldDirectory, components: tuple[str, ...], path: str, leave_out: frozenset[str]) -> Scanned:
        status, prefix, key = directory.status(), self._prefix(path), self._key(path)
        if self._cache is not None and not leave_out and (known := self._cache.unchanged(key, directory.fd, status)):
            self._count(components, path, prefix, len(known.names))
            return self._done(Scanned(status, known.directories, known.names, _all_below(prefix, known.names), known.rows))
        with os.scandir(directory.fd) as listing:
            entries = sorted(listing, key=_name_of)
        taken = [entry for entry in entries if entry.name not in leave_out] if leave_out else entries
        leaves = [entry for entry in taken if not entry.is_dir(follow_symlinks=False)]
        directories = [entry.name for entry in taken if entry.is_dir(follow_symlinks=False)] if len(leaves) < len(taken) else []
        names = [entry.name for entry in leaves]
        self._count(components, path, prefix, len(names))
        paths = _all_below(prefix, names)
        listed = _Listed(directory, components, path, status, entries, leaves, names, paths)
        if self._cache is None:
            return self._done(Scanned(status, directories, names, paths, self._rows(listed)))
        rows = self._cached_rows(self._cache, listed, key, None if leave_out else directories)
        return self._done(Scanned(status, directories, names, paths, rows))

    def _count(self, components: tuple[str, ...], path: str, prefix: str, leaves: int) -> None:
        self._tally.path_bytes += len(components) * _LEVEL_BYTES + len(path) + len(prefix) * leaves
        if self._tally.path_bytes > MAX_PATH_BYTES:
            raise PathError(
                f"no digest: the paths of the tree are longer than {MAX_PATH_BYTES} bytes together", reason="too-large", path=path
            )  # fmt: skip

    def _done(self, scanned: Scanned) -> Scanned:
        self._tally.files += len(scanned.names)
        self._tally.tell()
        return scanned

    def _rows(self, listed: _Listed) -> list[str]:
        directory, file, other = listed.directory, self._file, self._other
        found = [
            (file if entry.is_file(follow_symlinks=False) else other)(directory, entry.name, path)
            for entry, path in zip(listed.leaves, listed.paths, strict=True)
        ]
        rows = [row for _, row in found]
        if self.watch is not None:
            self.watch.note_directory(
                Seen(
                    components=(*self.top, *listed.components), stamp=stamp_of(listed.status),
                    names=[entry.name for entry in listed.entries], leaves=listed.names,
                    stamps=stamps_of([status for status, _ in found]), rows=rows,
                    row_of=functools.partial(self._row_again, listed.path),
                )
            )  # fmt: skip
        return rows

    def _cached_rows(self, cache: DigestCache, listed: _Listed, key: str, directories: list[str] | None) -> list[str]:
        try:
            statuses = [entry.stat(follow_symlinks=False) for entry in listed.leaves]
        except PermissionError:  # listed and not searched: there are no stamps
            return self._rows(listed)
        rows: list[str] = []
        unreadable = self._skip_unreadable or (lambda _: "")
        known = cache.rows(key, listed.status.st_dev, listed.names, statuses)
        for number, (name, path, row) in enumerate(zip(listed.names, listed.paths, known, strict=True)):
            if row is None:
                read = self._file if stat_bits.S_ISREG(statuses[number].st_mode) else self._other
                statuses[number], row = read(listed.directory, name, path)
                if row == unreadable(path):  # by whom the digest is made, which no stamp of the file tells
                    statuses[number] = NO_STATUS
            rows.append(row)
        cache.keep(key, listed.status, directories, listed.names, statuses, rows)
        return rows

    def _key(self, path: str) -> str:
        """What a cache knows the directory by: rows have paths from the top, and that may be another one the next time."""
        return f"{'/'.join(self.top)}//{path}"

    def _prefix(self, path: str) -> str:
        return f"{path}/" if path and self._form.whole_paths else ""

    def _row_again(self, path: str, directory: HeldDirectory, name: str) -> str:
        return self.leaf(directory, path, name)[1]

    def leaf(self, directory: HeldDirectory, path: str, name: str) -> tuple[os.stat_result, str]:
        """Status and row of one name in the directory `path`, whatever it is; a directory counts as something special.

        Raises:
            Moving, OSError: as Reader.digest.
        """
        read = self._file if stat_bits.S_ISREG(directory.look(name).st_mode) else self._other
        return read(directory, name, self._prefix(path) + name)

    def _file(self, directory: HeldDirectory, name: str, path: str) -> tuple[os.stat_result, str]:
        try:
            digest, status = self.reader.digest(directory, name)
        except PermissionError:
            return self._unreadable(directory, name, path)
        size = status.st_size
        self._tally.size_bytes += size
        form = self._form
        return status, hashed_row(form.heads[status.st_mode], form.encode(path), digest, size)

    def _other(self, directory: HeldDirectory, name: str, path: str) -> tuple[os.stat_result, str]:
        try:
            status = directory.look(name)
        except PermissionError:
            return self._unreadable(directory, name, path)
        if stat_bits.S_ISLNK(status.st_mode):
            return status, self._form.link(path, status.st_mode, directory.read_link(name))
        if stat_bits.S_ISREG(status.st_mode):
            raise Moving(name)  # it was something else when it was listed
        kind = _SPECIAL.get(stat_bits.S_IFMT(status.st_mode), EntryKind.OTHER)
        return status, self._form.special(path, status.st_mode, kind, status.st_size, status.st_rdev)

    def _unreadable(self, directory: HeldDirectory, name: str, path: str) -> tuple[os.stat_result, str]:
        if self._skip_unreadable is None:
            raise fact("permission", path)
        try:
            status = directory.look(name)
        except PermissionError:  # the directory can be listed and not searched
            status = NO_STATUS
        return status, self._skip_unreadable(path)


def _all_below(prefix: str, names: list[str]) -> list[str]:
    return [prefix + name for name in names] if prefix else names

"""The files of a working tree, one at a time: what git would store of one, and how many lines it has. No link is followed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat as stat_bits
from collections.abc import Iterator

import attrs

from fable_exec.errors import FableExecError
from fable_exec.pathguard import Workspace, WorkspacePath
from fable_exec.pathguard.directories import HeldDirectory
from fable_exec.proofbind.changes.bases import file_mode
from fable_exec.proofbind.changes.forms import MAX_OBJECT_BYTES, object_head, object_id
from fable_exec.proofbind.changes.values import CannotTell, Deadline
from fable_exec.proofbind.changes.walking import Standing
from fable_exec.treedigest.watching import stamp_of

__all__ = ["LINK_MODE", "Content", "Directories", "Lines", "count_lines"]

LINK_MODE = 0o120000
_CHUNK_BYTES = 256 * 1024
_LOOKED_AT_BYTES = 8000
"""git calls binary what has a NUL among its first so many bytes (buffer_is_binary)."""
_BIG_BYTES = 512 << 20
"""And whatever is as long as this (core.bigFileThreshold)."""


@attrs.frozen
class Content:
    """What stands at a path, whole."""

    mode: int
    oid: str
    data: bytes | None
    """None of a file that is too long to be compared line by line."""


@attrs.frozen
class Lines:
    """How many lines a file has, or that it is binary."""

    count: int
    looks_binary: bool


class Directories:
    """Opens files by their parents, one of which is held at a time: give paths in order."""

    def __init__(self, workspace: Workspace, deadline: Deadline) -> None:
        self._workspace = workspace
        self._deadline = deadline
        self._held: tuple[str, HeldDirectory] | None = None

    def __enter__(self) -> Directories:
        return self

    def __exit__(self, *_: object) -> None:
        if self._held is not None:
            self._held[1].close()
            self._held = None

    def content(self, path: str, standing: Standing, kind: str) -> Content:
        """What stands at `path`, with the name that git would give it by the hash function `kind`.

        Raises:
            CannotTell: `unreadable`, or `unstable`: it is not, or no longer, what was listed.
        """
        if standing is Standing.LINK:
            target = self._target(path)
            return Content(LINK_MODE, object_id("blob", target, kind), target)
        with self._opened(path) as (descriptor, status):
            if status.st_size <= MAX_OBJECT_BYTES:
                data = b"".join(self._pieces(descriptor))
                return Content(file_mode(status.st_mode), object_id("blob", data, kind), data)
            digest = hashlib.new(kind, object_head("blob", status.st_size), usedforsecurity=False)
            for piece in self._pieces(descriptor):
                digest.update(piece)
            return Content(file_mode(status.st_mode), digest.hexdigest(), None)

    def lines(self, path: str, standing: Standing) -> Lines:
        """How many lines stand at `path`; a link has the lines of its text.

        Raises:
            CannotTell: as `content`.
        """
        if standing is Standing.LINK:
            return count_lines([self._target(path)])
        with self._opened(path) as (descriptor, status):
            if status.st_size >= _BIG_BYTES:
                return Lines(0, True)
            return count_lines(self._pieces(descriptor))

    def _directory(self, parent: str) -> HeldDirectory:
        if self._held is None or self._held[0] != parent:
            self.__exit__()
            components = tuple(filter(None, parent.split("/")))
            self._held = parent, HeldDirectory(self._workspace.open_directory(WorkspacePath(components=components)))
        return self._held[1]

    @contextlib.contextmanager
    def _opened(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        """The file, and an error at the end if it was changed meanwhile."""
        self._deadline.left()
        parent, _, name = path.rpartition("/")
        with _readable(path):
            descriptor = self._directory(parent).open(name, os.O_RDONLY)
            try:
                before = os.fstat(descriptor)
                if not stat_bits.S_ISREG(before.st_mode):
                    raise _unstable(path)
                yield descriptor, before
                if stamp_of(os.fstat(descriptor)) != stamp_of(before):
                    raise _unstable(path)
            finally:
                os.close(descriptor)

    def _target(self, path: str) -> bytes:
        parent, _, name = path.rpartition("/")
        with _readable(path):
            return os.fsencode(self._directory(parent).read_link(name))

    def _pieces(self, descriptor: int) -> Iterator[bytes]:
        while piece := os.read(descriptor, _CHUNK_BYTES):
            yield piece
            self._deadline.left()


def count_lines(pieces: Iterator[bytes] | list[bytes]) -> Lines:
    """As git counts the lines of a file that is new: one without an end is one."""
    count, last, seen, binary = 0, b"", 0, False
    for piece in pieces:
        binary = binary or b"\0" in piece[: max(0, _LOOKED_AT_BYTES - seen)]
        seen += len(piece)
        count += piece.count(b"\n")
        last = piece[-1:] or last
    return Lines(count + (last not in (b"", b"\n")), binary)


@contextlib.contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise _unstable(path) from error
    except (FableExecError, OSError) as error:
        raise CannotTell("unreadable", f"{path!r} cannot be read: {error}") from error


def _unstable(path: str) -> CannotTell:
    return CannotTell("unstable", f"{path!r} was changed while it was read")

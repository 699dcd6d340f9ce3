"""Opening, reading and writing the content of one existing file in a held directory.

Every open is look, open, look at what was opened; nothing is truncated before that. Replacing is in replacing.py.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os

from fable_exec import _sys
from fable_exec.errors import Conflict
from fable_exec.pathguard.directories import Directory, give_owner
from fable_exec.pathguard.facts import fact
from fable_exec.pathguard.reasons import denied, shown
from fable_exec.pathguard.trust import Trust, refuse_hard_link, refuse_irregular, refuse_untrusted
from fable_exec.pathguard.values import Appended, FileContent, Written

__all__ = ["append", "changed", "open_regular", "read", "sha256_of_file", "write_all", "write_inplace"]

Data = bytes | bytearray | memoryview

HASH_CHUNK_BYTES = 1 << 20
MAX_CREATE_TRIES = 8


def open_regular(
    directory: Directory, name: str, flags: int, text: str, *, directory_required: bool = False
) -> tuple[int, os.stat_result]:
    """Open the regular file `name`; return its descriptor, which the caller owns, and what fstat says of it.

    The first look keeps FIFOs and devices from being opened at all; the second is about the file that was opened.
    """
    refuse_irregular(directory.look(name), text, directory_required=directory_required)
    try:
        fd = directory.open(name, flags)
    except OSError as error:
        if error.errno == errno.EXDEV:  # only no_xdev says this of an open: a file is mounted over the name
            raise denied("mount-crossing", text) from error
        raise
    try:
        status = os.fstat(fd)
        refuse_irregular(status, text)
    except BaseException:
        os.close(fd)
        raise
    return fd, status


def read(
    directory: Directory, name: str, text: str, *, max_bytes: int | None, trust: Trust, directory_required: bool
) -> FileContent:
    """Read at most `max_bytes` from the start."""
    fd, status = open_regular(directory, name, os.O_RDONLY, text, directory_required=directory_required)
    try:
        refuse_untrusted(status, text, trust)
        data = _read_bounded(fd, status.st_size, max_bytes)
    finally:
        os.close(fd)
    truncated = max_bytes is not None and len(data) > max_bytes
    total_bytes = max(status.st_size, len(data)) if truncated else len(data)
    if truncated:
        data = data[:max_bytes]
    return FileContent(data=data, total_bytes=total_bytes, truncated=truncated)


def _read_bounded(fd: int, size: int, max_bytes: int | None) -> bytes:
    """Read to the end of the file, or one byte more than `max_bytes`. One read may be short; only an empty one is the end."""
    room = size + 1 if max_bytes is None else min(size, max_bytes) + 1
    pieces: list[bytes] = []
    total = 0
    while piece := os.read(fd, room):
        pieces.append(piece)
        total += len(piece)
        if max_bytes is not None and total > max_bytes:
            break
        # A file that grew since fstat: go on in larger steps, still bounded by max_bytes.
        room = max(room - len(piece), HASH_CHUNK_BYTES if total > size else 1)
        if max_bytes is not None:
            room = min(room, max_bytes + 1 - total)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def write_all(fd: int, data: Data) -> None:
    """Write every byte; one write may be short (signals, 2 GiB)."""
    view = memoryview(data).cast("B")
    while view:
        view = view[os.write(fd, view) :]


def write_inplace(directory: Directory, name: str, data: Data, text: str, *, create: bool) -> Written:
    """Overwrite the file itself. A crash in between leaves a mix; a hard link is refused before anything is changed."""
    fd, created = _open_for_change(directory, name, os.O_WRONLY, text, create=create)
    try:
        os.ftruncate(fd, 0)
        write_all(fd, data)
        _sys.sync_file(fd)
    finally:
        os.close(fd)
    return Written(sha256=hashlib.sha256(data).hexdigest(), size_bytes=memoryview(data).nbytes, created=created)


def append(
    directory: Directory, name: str, data: Data, text: str, *, create: bool, turn: contextlib.AbstractContextManager[object]
) -> Appended:
    """Add to the end of the file itself, atomically against other appenders; a hard link is refused.

    After a failure the file is as long as before, or gone if it was made, unless another appended meanwhile.

    Args:
        turn: entered for the time from opening to having written: a file that is replaced then would take the addition with it.
    """
    with contextlib.ExitStack() as taken:
        taken.enter_context(turn)
        fd, created = _open_for_change(directory, name, os.O_WRONLY | os.O_APPEND, text, create=create)
        addition = _Addition(fd)
        try:
            addition.write(data)
            taken.close()
            _sys.sync_file(fd)
            total_bytes = os.fstat(fd).st_size
        except BaseException:
            if addition.take_back() and created:
                _remove_again(directory, name, fd)
            raise
        finally:
            os.close(fd)
    return Appended(added_bytes=memoryview(data).nbytes, total_bytes=total_bytes, created=created)


class _Addition:
    """What is added at the end of an open file; a full disk takes a part of it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._start = self._end = os.fstat(fd).st_size
        self._is_in_one_piece = True

    def write(self, data: Data) -> None:
        view = memoryview(data).cast("B")
        while view:
            count = os.write(self._fd, view)
            view = view[count:]
            end = os.lseek(self._fd, 0, os.SEEK_CUR)  # where the kernel put it: at what was the end then (O_APPEND)
            if self._end == self._start:
                self._start = end - count
            elif end - count != self._end:
                self._is_in_one_piece = False
            self._end = end

    def take_back(self) -> bool:
        """Cut it off again where nothing of another's stands within or behind it; whether the file is without it now."""
        try:
            if self._is_in_one_piece and os.fstat(self._fd).st_size == self._end:
                if self._start != self._end:
                    os.ftruncate(self._fd, self._start)
                return True
        except OSError:
            pass  # the failure that led here is the one to tell
        return False


def _remove_again(directory: Directory, name: str, fd: int) -> None:
    """Remove the file that was made here and never got its content, if the name still means it."""
    with contextlib.suppress(OSError):
        if os.path.samestat(directory.look(name), os.fstat(fd)):
            directory.unlink(name)


def _open_for_change(directory: Directory, name: str, flags: int, text: str, *, create: bool) -> tuple[int, bool]:
    """Open the file to change it in place, or create it; bounded, since another process may make and remove it at will."""
    for _ in range(MAX_CREATE_TRIES):
        try:
            return _open_unshared(directory, name, flags, text), False
        except FileNotFoundError:
            if not create:
                raise
        try:
            fd = directory.open(name, flags | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            continue
        give_owner(fd, directory)
        return fd, True
    raise fact("unstable", text)


def _open_unshared(directory: Directory, name: str, flags: int, text: str) -> int:
    fd, status = open_regular(directory, name, flags, text)
    try:
        refuse_hard_link(status, text)
    except BaseException:
        os.close(fd)
        raise
    return fd


def sha256_of_file(directory: Directory, name: str, text: str) -> tuple[str, os.stat_result]:
    """The digest of a regular file and what fstat said before it was read."""
    fd, status = open_regular(directory, name, os.O_RDONLY, text)
    try:
        digest = hashlib.sha256()
        while piece := os.read(fd, HASH_CHUNK_BYTES):
            digest.update(piece)
    finally:
        os.close(fd)
    return digest.hexdigest(), status


def changed(text: str, expected_sha256: str, actual_sha256: str | None) -> Conflict:
    """The refusal of a write whose condition does not hold."""
    now = f"it now has {actual_sha256}" if actual_sha256 else "it was changed while the write was prepared"
    return Conflict(
        f"path {shown(text)} refused (changed): it was expected to have SHA-256 {shown(expected_sha256)} but {now};"
        " read it again and decide anew",
        reason="changed", path=text, expected_sha256=expected_sha256, actual_sha256=actual_sha256,
    )  # fmt: skip

"""The terminal record as an open file: its space made certain at the start, one outcome written in place at the end."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from fable_exec import _sys
from fable_exec.errors import Conflict
from fable_exec.statefile.documents import BadDocument, Form, unreadable
from fable_exec.statefile.opening import close, open_private, read_from_start, write_at
from fable_exec.statefile.records import RECORD_BYTES, Condition, Record, decode_record, encode_record, room_for

__all__ = ["TerminalRecord", "open_terminal_record", "outcome_in"]

_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system's own is
_CANNOT_PROMISE = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


class TerminalRecord:
    """How an execution ended, once it has: a file of fixed size, held open so that nothing is missing when it is needed.

    Neither space nor a descriptor, a directory entry or a lock is asked for at the end. Its owner closes it. It is written by
    whoever holds the lock of the keeper's life.
    """

    def __init__(self, fd: int, form: Form, path: Path) -> None:
        self._fd = fd
        self._form = form
        self._path = path

    def fileno(self) -> int:
        """Its descriptor, which stays this one's."""
        return self._fd

    def read(self) -> Record:
        """What is recorded. Raises StateUnreadable for the record of something else, OSError."""
        return self._decoded(read_from_start(self._fd, RECORD_BYTES))

    def write(self, outcome: Mapping[str, Any]) -> None:
        """Record how it ended, durably and once; the same again does nothing.

        Of one that is longer than MAX_OUTCOME_BYTES the longest members are left out, and the condition is ABRIDGED.

        Raises:
            ValueError: `outcome` is no JSON, or says anew what the form says; nothing was written.
            Conflict: another outcome is recorded already, and stays.
            StateUnreadable: the record is of something else.
            OSError: it may not be on the disk, or not be whole; a torn record reads as one that was never written.
        """
        block = encode_record(outcome, self._form)
        raw = read_from_start(self._fd, RECORD_BYTES)
        is_recorded = self._decoded(raw).outcome is not None
        if is_recorded and raw.rstrip(b"\0") != block.rstrip(b"\0"):
            raise Conflict("another outcome of this execution is recorded already; the first one is final", reason="final")
        if os.fstat(self._fd).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "the terminal record was removed")
        if not is_recorded:
            write_at(self._fd, block)
        _sys.sync_data(self._fd)

    def _decoded(self, raw: bytes) -> Record:
        try:
            return decode_record(raw, self._form)
        except BadDocument as fault:
            raise unreadable(str(self._path), fault) from None

    def close(self) -> None:
        """Give the descriptor back; more calls do nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            close(fd)

    def __enter__(self) -> TerminalRecord:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def open_terminal_record(path: Path, form: Form, dir_fd: int) -> TerminalRecord:
    """The record of that name in the directory, made if need be, with its space certain and the certainty on the disk.

    Raises:
        ValueError: `form` is so long that an end would not fit into the record.
        BadDocument: something else has that name.
        OSError: there is no space (ENOSPC, EDQUOT), or the kernel's other answer.
    """
    room_for(form)
    fd = open_private(path.name, os.O_RDWR | os.O_CREAT, dir_fd)
    try:
        if not _is_certain(os.fstat(fd)):
            _reserve(fd)
            _sys.sync_file(fd)
            _sys.sync_directory(dir_fd)
    except BaseException:
        close(fd)
        raise
    return TerminalRecord(fd, form, path)


def outcome_in(raw: bytes | None, form: Form) -> Record:
    """What the bytes of a record's file say; None is a file that is not there. Raises BadDocument."""
    return Record(Condition.ABSENT) if raw is None else decode_record(raw, form)


def _is_certain(status: os.stat_result) -> bool:
    return status.st_size >= RECORD_BYTES and status.st_blocks * _BLOCK_BYTES >= RECORD_BYTES


def _reserve(fd: int) -> None:
    """Where the kernel cannot promise space, zeros take it: on a file system that copies when it writes this is less."""
    try:
        _sys.reserve_space(fd, RECORD_BYTES)
    except OSError as error:
        if error.errno not in _CANNOT_PROMISE:
            raise
        end = os.fstat(fd).st_size  # what stands before it may be a record
        write_at(fd, bytes(max(RECORD_BYTES - end, 0)), end)

"""One process's hold on the file of an audit log: open it safely, lock it, find the end of the chain, write whole lines.

`log` owns the threads, the forks and the policy for failures; here a failure is an OSError and the file is left as it was, or
with bytes that the next line will name.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from fable_exec._sys import locks
from fable_exec._sys.forks import ProcessLock
from fable_exec.audit.lines import GAP, AuditHead, BadLine, encode_line, parse_line
from fable_exec.errors import AuditUnavailable
from fable_exec.privatefiles import OPENING, Fault, fault_of

__all__ = ["Writer", "locked", "open_writer", "unavailable", "unusable"]

_TAIL_BYTES = 64 * 1024
"""How far back the last line is looked for behind torn bytes."""

_LONGEST_SHOWN = 400
_LOCK_SECONDS = 5.0
"""How long another writer may hold the lock; an append takes microseconds, so a longer hold is a stopped or hostile process."""


@attrs.define
class Writer:
    """One process's descriptor of the log and what it knows about the end of the file. Used under both locks."""

    fd: int
    pid: int
    must_be_linked: bool
    lock: ProcessLock = attrs.field(factory=ProcessLock)
    """One thread may take it twice: garbage may be collected in the midst, and a broker end with it."""
    head: AuditHead = attrs.field(factory=AuditHead)
    known_size: int = 0
    prefix: bytes = b""
    torn: dict[str, Any] | None = None
    lost: dict[str, Any] | None = None

    def write(self, when: str, kind: str, facts: dict[str, Any]) -> AuditHead:
        """Append a line, and before it the gap lines that are owed for torn bytes and lost lines. The new head.

        Raises OSError: the line is not there, or torn, which the next one tells; the head is the old one.
        """
        size = self.catch_up()
        data, head = self.prefix, self.head
        for gap in (self.torn, self.lost):
            if gap is not None:
                line, head = encode_line(head, when, GAP, gap)
                data += line
        line, head = encode_line(head, when, kind, facts)
        self._write_whole(data + line, size)
        self.head, self.known_size = head, size + len(data) + len(line)
        self.prefix, self.torn, self.lost = b"", None, None
        return head

    def catch_up(self) -> int:
        """The size of the file; takes up what other writers have appended since."""
        status = os.fstat(self.fd)
        if self.must_be_linked and status.st_nlink == 0:
            raise OSError(errno.ENOENT, "the audit log was deleted")
        if status.st_size > self.known_size:
            self._take_up(status.st_size)
        elif status.st_size < self.known_size:
            self._end_what_was_cut(status.st_size)
        self.known_size = status.st_size
        return status.st_size

    def note_lost(self, when: str, error: OSError) -> None:
        """Count a line that could not be written; the next that can be is preceded by a gap line about it."""
        before = self.lost or {"reason": "lines lost", "lost_lines": 0, "since": when}
        name = errno.errorcode.get(error.errno or 0, type(error).__name__)
        self.lost = {**before, "lost_lines": before["lost_lines"] + 1, "last_error": name}

    def close(self) -> None:
        """Bring the log to the disk and give the descriptor back, also where the first fails. Raises AuditUnavailable then."""
        with self.lock:
            fd, self.fd = self.fd, -1  # a thread that waits for the lock must not write to whatever gets this number next
            try:
                os.fsync(fd)
            except OSError as error:
                raise unavailable(error) from error
            finally:
                os.close(fd)

    def _write_whole(self, data: bytes, size: int) -> None:
        written = os.write(self.fd, data)
        if written == len(data):
            return
        try:
            os.ftruncate(self.fd, size)  # our own torn bytes, under the lock
        except OSError:
            pass  # a file that may only grow: the next line will be preceded by a gap that names them
        raise OSError(errno.ENOSPC, "only a part of the line was taken")

    def _take_up(self, size: int) -> None:
        """Find the last line of the chain; bytes behind it are torn and will be named by a gap line."""
        start = max(0, size - _TAIL_BYTES)
        tail = os.pread(self.fd, size - start, start)
        if len(tail) != size - start:
            raise OSError(errno.EIO, "the audit log could not be read to its end")
        end, head = _last_line(tail)
        if head is None and (start > 0 or not _begins_like_a_log(tail)):
            raise OSError(errno.EBADMSG, "the file does not end like an audit log; look at it and move it away")
        torn = tail[end:].removeprefix(b"\n") if head else tail
        self.head = head or AuditHead()
        self.prefix = b"" if not torn and tail.endswith(b"\n") else b"\n"
        self.torn = _torn_facts(torn + b"\n") if torn else None

    def _end_what_was_cut(self, size: int) -> None:
        """The file has shrunk: go on from the head we know, on a line of our own, so that `verify_log` finds the break."""
        self.prefix = b"\n" if size and os.pread(self.fd, 1, size - 1) != b"\n" else b""
        self.torn = None


def _last_line(tail: bytes) -> tuple[int, AuditHead | None]:
    """Where the last line in `tail` ends, without its newline, and the head it makes; 0 and None when there is none."""
    end = len(tail.removesuffix(b"\n"))
    while end > 0:
        begin = tail.rfind(b"\n", 0, end) + 1
        try:
            return end, parse_line(tail[begin:end]).head
        except BadLine:
            end = begin - 1
    return 0, None


def _begins_like_a_log(data: bytes) -> bool:
    """Whether a first line can have been torn to this. A file of someone else's must not be taken for one."""
    first = b'{"sequence":1,'
    return data.startswith(first) or first.startswith(data) or not data.strip(b"\0")


def _torn_facts(torn: bytes) -> dict[str, Any]:
    return {"reason": "torn", "torn_bytes": len(torn), "torn_sha256": hashlib.sha256(torn).hexdigest()}


def open_writer(target: str | Path | int) -> Writer:
    """Open the log and refuse a file that someone else could have prepared. Raises AuditUnavailable."""
    if sys.platform == "win32":
        raise AuditUnavailable("the audit log needs a POSIX system", errno=errno.ENOSYS)
    flags = os.O_RDWR | os.O_APPEND | OPENING
    try:
        if isinstance(target, int):
            # Opening anew gives a file description, and so a lock, of our own; flock of a shared one would keep nobody out.
            fd = os.open(f"/proc/self/fd/{target}", flags & ~os.O_NOFOLLOW)
        else:
            fd = os.open(target, flags | os.O_CREAT, 0o600)
    except (OSError, ValueError) as error:
        raise unusable(target, error) from error
    status = os.fstat(fd)
    fault = fault_of(status)
    if fault is not None:
        os.close(fd)
        raise unusable(target, PermissionError(errno.EPERM, fault.value + _WHAT_TO_DO.get(fault, "")))
    if status.st_mode & 0o600 != 0o600:
        os.fchmod(fd, 0o600)  # made just now, and the host's umask took even our own rights
    return Writer(fd, os.getpid(), must_be_linked=not isinstance(target, int))


_WHAT_TO_DO = {
    Fault.NOT_REGULAR: "; name another one",
    Fault.NOT_OWN: "; name another one, or start as that user",
    Fault.LINKED: "; name another one",
}


@contextmanager
def locked(fd: int) -> Iterator[None]:
    """Hold the file against other writers. Raises OSError when it cannot be had within _LOCK_SECONDS."""
    if fd < 0:
        raise OSError(errno.EBADF, "the audit log is closed")
    if not locks.lock_within(fd, _LOCK_SECONDS):
        raise OSError(errno.ETIMEDOUT, "another process holds the audit log locked")
    try:
        yield
    finally:
        locks.unlock(fd)


def unavailable(error: Exception) -> AuditUnavailable:
    """In the words of a log that is in use."""
    return _told(error, "the audit log cannot take another line")


def unusable(target: str | Path | int, error: Exception) -> AuditUnavailable:
    """In the words of one that cannot even be begun: which, why, and what to do."""
    name = f"descriptor {target}" if isinstance(target, int) else ascii(str(target))[:_LONGEST_SHOWN]
    remedy = _REMEDIES.get(getattr(error, "errno", None) or 0, "")
    return _told(error, f"the audit log {name} cannot be used", remedy and f"; {remedy}")


_REMEDIES = {
    errno.ENOENT: "make its directory, or name a file elsewhere",
    errno.ENOTDIR: "what should be its directory is none; name a file elsewhere",
    errno.EACCES: "name a file where this user may write",
    errno.EROFS: "name a file where this user may write",
    errno.EISDIR: "name a file in it",
    errno.ELOOP: "a symbolic link is not followed; name the file itself",
}


def _told(error: Exception, what: str, remedy: str = "") -> AuditUnavailable:
    if isinstance(error, AuditUnavailable):
        return error
    number = getattr(error, "errno", None) or errno.EIO
    reason = getattr(error, "strerror", None) or str(error)
    return AuditUnavailable(f"{what}: {reason}{remedy}", errno=number)

"""Reads an audit log from its start and says whether its chain holds. It changes nothing and needs constant memory.

Found without anything but the file: a changed byte, a removed, repeated, inserted or moved line, bytes that are no line. Not
found: a tail cut at a line's end, and a log rewritten as a whole with new digests. Both are found with a head that was noted
elsewhere (`expected_head`).
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import attrs

from fable_exec.audit.lines import GAP, MAX_LINE_BYTES, AuditHead, BadLine, Line, parse_line

if sys.platform != "win32":
    import fcntl

__all__ = ["AuditReport", "verify_log"]


@attrs.frozen(kw_only=True)
class AuditReport:
    """What was found in a log. `first_bad` is the number of the first line in the file that does not hold, from 1."""

    ok: bool
    lines: int
    """Lines of the chain that hold, from the start."""
    first_bad: int | None
    reason: str
    head: AuditHead
    """The last line that holds; note it elsewhere and give it as `expected_head` next time."""
    gaps: int
    """Places where the log itself says that lines are missing or torn; they do not make it false."""


def verify_log(path: str | Path, *, expected_head: str | None = None) -> AuditReport:
    """Whether the log at `path` is the one that was written.

    Args:
        expected_head: digest of a line that is known to have been written (`AuditLog.head`, or `head` of an earlier report); the
            log may have grown since. Without it a cut of the tail cannot be seen.

    Returns:
        A report; a log that does not hold is a report, not an exception. Lines written while it runs are not looked at.

    Raises:
        OSError: the file cannot be read or is not a regular file.
    """
    with open(path, "rb", opener=_opener) as stream:
        chain = _Chain(expected_head)
        for piece in _pieces(stream, _settled_size(stream)):
            if not chain.take(piece):
                break
        return chain.report()


@attrs.define
class _Chain:
    """The state of a walk along the chain."""

    expected_head: str | None
    head: AuditHead = attrs.field(factory=AuditHead)
    number: int = 0
    gaps: int = 0
    reason: str = ""
    seen_expected: bool = False
    torn_at: int = 0
    torn_bytes: int = 0
    torn_reason: str = ""
    torn_hash: hashlib._Hash = attrs.field(factory=hashlib.sha256)

    def take(self, piece: bytes) -> bool:
        """The next line, or piece of one that is too long. False when the chain has broken."""
        self.number += 1
        try:
            if not piece.endswith(b"\n"):
                raise BadLine("the last line is torn" if len(piece) < MAX_LINE_BYTES else "longer than any line")
            line = parse_line(piece[:-1])
        except BadLine as error:
            self._note_torn(piece, str(error))
            return True
        self.reason = self._fault(line)
        if self.reason:
            return False
        self.head = line.head
        self.seen_expected = self.seen_expected or line.digest == self.expected_head
        self.gaps += line.kind == GAP
        return True

    def report(self) -> AuditReport:
        reason, first_bad = self.reason, self.torn_at or self.number
        if not reason and self.torn_at:
            reason = self.torn_reason
        if not reason and self.expected_head not in (None, self.head.digest, AuditHead().digest) and not self.seen_expected:
            reason, first_bad = "the expected head is not in the log: its tail was cut, or it is another log", self.number + 1
        return AuditReport(
            ok=not reason,
            lines=self.head.sequence,
            first_bad=first_bad if reason else None,
            reason=reason,
            head=self.head,
            gaps=self.gaps,
        )

    def _note_torn(self, piece: bytes, reason: str) -> None:
        """Bytes that are no line are no fault if the next line is a gap that names them; until then they are."""
        if not self.torn_at:
            self.torn_at, self.torn_reason = self.number, reason
            self.torn_bytes, self.torn_hash = 0, hashlib.sha256()
        self.torn_bytes += len(piece)
        self.torn_hash.update(piece)

    def _fault(self, line: Line) -> str:
        if self.torn_at and not self._vouched(line):
            return self.torn_reason
        self.torn_at = 0
        if line.sequence != self.head.sequence + 1:
            return f"line {self.head.sequence + 1} of the chain should stand here, not {line.sequence}"
        if line.previous != self.head.digest:
            return "does not follow the line before it"
        return ""

    def _vouched(self, line: Line) -> bool:
        claimed = (line.facts.get("torn_bytes"), line.facts.get("torn_sha256"))
        return line.kind == GAP and claimed == (self.torn_bytes, self.torn_hash.hexdigest())


def _opener(path: str, _: int) -> int:
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return os.open(path, flags | getattr(os, "O_BINARY", 0))


def _settled_size(stream: BinaryIO) -> int:
    """The size between two appends, so that a line being written is not taken for a torn one."""
    status = os.fstat(stream.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"not a regular file: {stream.name!a}")
    if sys.platform == "win32":
        return status.st_size
    fcntl.flock(stream, fcntl.LOCK_SH)
    try:
        return os.fstat(stream.fileno()).st_size
    finally:
        fcntl.flock(stream, fcntl.LOCK_UN)


def _pieces(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """The lines of the first `size` bytes with their newlines; one that is too long comes in pieces."""
    while size > 0:
        piece = stream.readline(min(MAX_LINE_BYTES, size))
        if not piece:
            return
        size -= len(piece)
        yield piece

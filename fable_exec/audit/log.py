"""The writing end of an audit log: one locked append a line, safe for threads, for forks and for several processes on one file.

The file is what counts: under its lock (flock(2)) a writer looks whether the file has grown and takes up the chain from its last
line, then writes with one write(2) in append mode. Lines are not synced to the disk one by one: they survive the end of the
process, `sync` and `close` make them survive a power cut. It decides nothing and knows no policy.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from fable_exec.audit.lines import AuditHead
from fable_exec.audit.writer import Writer, locked, open_writer, unavailable, unusable
from fable_exec.errors import AuditUnavailable

__all__ = ["AuditLog"]


class AuditLog:
    """An append-only, hash-chained log of JSON lines at a path, or on an open descriptor (Linux), which stays the caller's.

    The file is created with mode 0600. An existing one must be a regular file of this user with one link that nobody else can
    open, and end like an audit log; its chain goes on. Every method may be called from any thread.

    Args:
        on_failure: when a line cannot be written, "refuse" makes `append` raise AuditUnavailable and "continue" makes it return
            None. In both cases the next line that can be written is preceded by a `gap` line with the number of lost ones.
        clock: what time it is, in UTC.

    Raises:
        AuditUnavailable: the file cannot be used, whatever `on_failure` says; nothing was written.
    """

    def __init__(
        self,
        target: str | Path | int,
        *,
        on_failure: Literal["refuse", "continue"] = "refuse",
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._target = target
        self._on_failure = on_failure
        self._clock = clock or _utc_now
        self._closed = False
        self._final_head = AuditHead()
        writer = open_writer(target)
        self._writers = {writer.pid: writer}
        try:
            with writer.lock, locked(writer.fd):
                writer.catch_up()
        except OSError as error:
            os.close(writer.fd)
            raise unusable(target, error) from error

    @property
    def head(self) -> AuditHead:
        """The last line this object wrote or saw, also after `close`; note it elsewhere to find a cut of the tail later."""
        return self._final_head if self._closed else self._writer().head

    def append(self, kind: str, /, **facts: Any) -> AuditHead | None:
        """Write one line; the head it makes, or None when it was lost and the log goes on.

        `facts` are cut and cleaned, so that a line is bounded whatever a peer put into them. Secrets do not belong here.

        Raises:
            AuditUnavailable: the line could not be written and `on_failure` is "refuse", or the log is closed.
        """
        if self._closed:
            raise _closed()
        when = _stamp(self._clock())
        writer: Writer | None = None
        try:
            writer = self._writer()
            with writer.lock, locked(writer.fd):
                return writer.write(when, kind, facts)
        except (OSError, ValueError) as error:
            if self._closed:  # meanwhile, by another thread: the descriptor is -1
                raise _closed() from error
            if isinstance(error, ValueError):
                raise
            if writer is not None:
                with writer.lock:
                    writer.note_lost(when, error)
            if self._on_failure != "continue":
                raise unavailable(error) from error
            return None

    def sync(self) -> None:
        """Wait until all lines are on the disk. Raises AuditUnavailable."""
        try:
            writer = self._writer()
            with writer.lock:
                os.fsync(writer.fd)
        except (OSError, ValueError) as error:  # ValueError: closed meanwhile, the descriptor is -1
            raise unavailable(error) from error

    def close(self) -> None:
        """Sync and close; more calls do nothing. A descriptor that was given stays open."""
        self._closed = True
        while self._writers:
            _, writer = self._writers.popitem()
            if writer.pid == os.getpid():
                self._final_head = writer.head
                writer.close()
            else:
                os.close(writer.fd)  # of the process we were forked from, which may have been holding the lock at that moment

    def __enter__(self) -> AuditLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _writer(self) -> Writer:
        """The writer of this process. A forked child must not share its parent's: flock would not keep the two apart."""
        pid = os.getpid()
        writer = self._writers.get(pid)
        if writer is not None:
            return writer
        if self._closed:
            raise _closed()
        return self._writer_after_fork(pid)

    def _writer_after_fork(self, pid: int) -> Writer:
        inherited = next(iter(list(self._writers.values())))
        fresh = open_writer(self._target)
        if not os.path.samestat(os.fstat(fresh.fd), os.fstat(inherited.fd)):
            os.close(fresh.fd)
            raise OSError(errno.ESTALE, "another file stands at the audit log's path")
        writer = self._writers.setdefault(pid, fresh)  # two threads of the child may come here at once
        if writer is not fresh:
            os.close(fresh.fd)
        elif self._writers.pop(inherited.pid, None) is not None:
            os.close(inherited.fd)
        return writer


def _closed() -> AuditUnavailable:
    return AuditUnavailable("the audit log is closed", errno=errno.EBADF)


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _stamp(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")

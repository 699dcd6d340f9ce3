"""The state of one execution: one JSON document that is read without a lock, changed under one, and never half written.

Beside it lies the terminal record, which needs no space: where it is whole it tells how the execution ended, whatever state.json
says. Nothing is kept between calls, so threads and forked children may share a StateFile.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

import attrs

from fable_exec import _sys
from fable_exec.errors import Conflict, StateUnreadable
from fable_exec.statefile.documents import (
    MAX_DOCUMENT_BYTES,
    BadDocument,
    Form,
    TooLong,
    Unreadable,
    decode_document,
    encode_document,
    unreadable,
)
from fable_exec.statefile.locking import held_lock
from fable_exec.statefile.opening import close, open_directory, read_all
from fable_exec.statefile.records import RECORD_BYTES, Condition, Record, kept_of
from fable_exec.statefile.replacing import move_aside, replace
from fable_exec.statefile.terminal import TerminalRecord, open_terminal_record, outcome_in

__all__ = ["LOCK_NAME", "LOCK_SECONDS", "RECORD_NAME", "STATE_NAME", "HeldState", "Reading", "Source", "StateFile"]

STATE_NAME = "state.json"
LOCK_NAME = ".lock"
RECORD_NAME = "terminal.rec"
LOCK_SECONDS = 5.0
"""How long another may hold the lock, unless told otherwise; a change takes milliseconds."""

_LONGEST_SHOWN = 400


class Source(Enum):
    """Which of the two files tells the newest."""

    STATE_FILE = "state-file"
    TERMINAL_RECORD = "terminal-record"
    """state.json could not be written any more, or is about to be: the outcome is known from the record alone."""


@attrs.frozen
class Reading:
    """What was read, in one piece. `document` has the outcome in it wherever that was found, and is the caller's to change."""

    document: dict[str, Any]
    source: Source
    record: Condition


def _absolute(path: str | Path) -> Path:
    return Path(path).absolute()


@attrs.frozen
class StateFile:
    """The files of one execution in `directory`, which exists, is this user's, and is nobody else's to enter (0700).

    Args:
        directory: absolute from here on, whatever the working directory becomes.
        form: the schema of the documents, and members that each of them has, such as the execution's id.
    """

    directory: Path = attrs.field(converter=_absolute)
    form: Form

    def read(self) -> Reading | None:
        """The state as of now, without a lock; None where there is none yet.

        Raises:
            StateUnreadable: there is one that cannot be believed. It is never taken for none.
            OSError: the kernel's answer.
        """
        try:
            with self._opened() as opened:
                return opened.read()
        except FileNotFoundError:
            return None

    @contextmanager
    def locked(self, timeout_seconds: float = LOCK_SECONDS) -> Iterator[HeldState]:
        """Hold the lock, for reading and then writing what was read.

        It keeps out every other holder in any thread or process. A program that is started meanwhile does not inherit it; a child
        that is forked meanwhile cannot use it, and may leave the block without giving it back.

        Raises:
            TimeoutError: another held it all the time; it names the lock file.
            StateUnreadable: directory or lock file are not private.
            FileNotFoundError, OSError: there is no such directory; the kernel's answer.
        """
        with self._opened() as opened, ExitStack() as stack:
            with opened.told(LOCK_NAME):
                stack.enter_context(held_lock(opened.path_of(LOCK_NAME), opened.dir_fd, timeout_seconds))
            held = HeldState(opened)
            try:
                yield held
            finally:
                held.give_back()

    def terminal_record(self) -> TerminalRecord:
        """The terminal record, made if need be, with its space certain on the disk; the caller closes it.

        Raises:
            OSError: there is no space for it (ENOSPC, EDQUOT): what cannot be recorded must not be started.
            ValueError: the members of `form` are so long that an end would not fit into it.
            StateUnreadable: something else has its name.
        """
        with self._opened() as opened, opened.told(RECORD_NAME):
            return open_terminal_record(opened.path_of(RECORD_NAME), self.form, opened.dir_fd)

    def adopt_terminal_record(self, fd: int) -> TerminalRecord:
        """The terminal record that another process opened and handed over; the caller closes it, and with it `fd`."""
        return TerminalRecord(fd, self.form, self.directory / RECORD_NAME)

    def conclude(self, record: TerminalRecord, outcome: Mapping[str, Any], timeout_seconds: float = LOCK_SECONDS) -> bool:
        """Record once how it ended: in the terminal record, then in state.json. The first needs no space and no lock.

        It is for whoever holds the lock of the keeper's life; that lock, not this one, keeps a second writer of the record away.

        Length loses no end. Of an outcome that is too long for the record the longest members are in state.json alone, and if it
        is too long for that (1 MiB), nowhere.

        Returns:
            Whether state.json has all of it. If not, `read` tells what the record has, and `write` of that puts it there.

        Raises:
            ValueError: `outcome` is no JSON, or says anew what the form says; nothing was changed.
            Conflict: another outcome is recorded, and stays.
            OSError, StateUnreadable: neither could be written; the cause is why state.json could not.
        """
        failure: OSError | StateUnreadable | None = None
        try:
            record.write(outcome)
        except (OSError, StateUnreadable) as error:
            failure = error
        try:
            with self.locked(timeout_seconds) as held:
                return _add(held, outcome, self.form)
        except (OSError, StateUnreadable, TooLong) as error:
            if failure is not None:
                raise failure from error
            return False

    @contextmanager
    def _opened(self) -> Iterator[_OpenState]:
        try:
            dir_fd = open_directory(str(self.directory))
        except BadDocument as fault:
            raise unreadable(str(self.directory), fault) from None
        try:
            yield _OpenState(dir_fd, self.form, self.directory)
        finally:
            close(dir_fd)


@attrs.frozen
class _OpenState:
    """The files in their open directory, read together, and each named by its path when it cannot be believed."""

    dir_fd: int
    form: Form
    directory: Path

    def read(self) -> Reading | None:
        document, record = self.look()
        if document is None:
            return None
        told = {**document, **(record.outcome or {})}
        return Reading(told, Source.STATE_FILE if told == document else Source.TERMINAL_RECORD, record.condition)

    def look(self) -> tuple[dict[str, Any] | None, Record]:
        """state.json first: whoever sees an outcome in it will find the record whole, and whoever does not may find it so."""
        document, fault = self._document()
        with self.told(RECORD_NAME):
            record = outcome_in(read_all(RECORD_NAME, self.dir_fd, RECORD_BYTES), self.form)
        begun = record.condition not in (Condition.ABSENT, Condition.EMPTY)
        if document is None and fault is None and begun:
            document, fault = self._document()  # made, and ended, since we looked
            if document is None and fault is None:
                fault = BadDocument(Unreadable.MISSING, "it is not there, and the terminal record beside it is written")
        if fault is not None:
            raise unreadable(str(self.path_of(STATE_NAME)), fault, record.outcome)
        return document, record

    def path_of(self, name: str) -> Path:
        return self.directory / name

    @contextmanager
    def told(self, name: str) -> Iterator[None]:
        """Say of which file it is told that it cannot be believed."""
        try:
            yield
        except BadDocument as fault:
            raise unreadable(str(self.path_of(name)), fault) from None

    def _document(self) -> tuple[dict[str, Any] | None, BadDocument | None]:
        try:
            raw = read_all(STATE_NAME, self.dir_fd, MAX_DOCUMENT_BYTES + 1)
            return None if raw is None else decode_document(raw, self.form), None
        except BadDocument as fault:
            return None, fault


def _add(held: HeldState, outcome: Mapping[str, Any], form: Form) -> bool:
    """Put the outcome into state.json, or at least what the record keeps of it; whether it is all there."""
    document = held.require().document
    try:
        held.write({**document, **outcome})
    except TooLong:
        held.write({**document, **kept_of(outcome, form)})
        return False
    return True


def _require_outcome(recorded: Mapping[str, Any], written: Mapping[str, Any]) -> None:
    """Raise Conflict where a document denies the outcome that is recorded."""
    denied = sorted(name for name, value in recorded.items() if name not in written or written[name] != value)
    if denied:
        raise Conflict(
            f"the outcome of this execution is recorded and final: {', '.join(denied)[:_LONGEST_SHOWN]}", reason="final"
        )


class HeldState:
    """The state while its lock is held: what is read stays true until it is written. Made by `StateFile.locked`."""

    def __init__(self, opened: _OpenState) -> None:
        self._opened: _OpenState | None = opened
        self._owner = os.getpid()

    def read(self) -> Reading | None:
        """As `StateFile.read`."""
        return self._held().read()

    def require(self) -> Reading:
        """As `read`, where there must be one. Raises FileNotFoundError besides."""
        opened = self._held()
        reading = opened.read()
        if reading is None:
            raise FileNotFoundError(errno.ENOENT, "there is no state", str(opened.path_of(STATE_NAME)))
        return reading

    def write(self, document: Mapping[str, Any]) -> None:
        """Replace the whole document, durably, with the mode 0600.

        Raises:
            ValueError: `document` is no JSON, too large, or not of the state's form; nothing was changed.
            Conflict: it denies an outcome that is recorded; nothing was changed.
            StateUnreadable: what is there cannot be believed, and has to be moved aside first; nothing was changed.
            OSError: nothing was changed, unless the fsync of the directory failed: then the new document stands, and a power cut
                may bring the old one back.
        """
        opened = self._held()
        raw = encode_document(document, opened.form)
        _, record = opened.look()
        if record.outcome is not None:
            _require_outcome(record.outcome, decode_document(raw, opened.form))  # a list for a tuple: as a reader compares
        replace(STATE_NAME, raw, opened.dir_fd)

    def quarantine(self) -> list[Path]:
        """Move what cannot be believed aside, under new names, so that the place is free; the new paths, in no order.

        Nothing is ever overwritten, and what can be read is left alone: the list is empty then.

        Raises:
            OSError: it stays, or a part of it, and is unreadable still.
        """
        opened = self._held()
        try:
            opened.read()
            return []
        except StateUnreadable:
            pass
        suffix = f"unreadable-{os.urandom(8).hex()}"
        # Should only one of them get away, what is left is unreadable still, and nobody takes the place for free.
        moved = [name for name in (STATE_NAME, RECORD_NAME) if move_aside(name, f"{name}.{suffix}", opened.dir_fd)]
        _sys.sync_directory(opened.dir_fd)
        return [opened.path_of(f"{name}.{suffix}") for name in moved]

    def give_back(self) -> None:
        """The block is left: the lock is no longer held, and nothing can be done with this any more."""
        self._opened = None

    def _held(self) -> _OpenState:
        if os.getpid() != self._owner:
            raise Conflict.inherited("the lock of this state", self._owner)
        if self._opened is None:
            raise ValueError("the lock of this state was given back")
        return self._opened

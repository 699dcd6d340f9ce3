"""Acts on a state file, what the files are like before, and what must be true after, whatever went wrong in the midst.

Used by faults_program.py, which is a process of its own: an assertion that fails ends it with a traceback.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from fable_exec.errors import StateUnreadable
from fable_exec.statefile import RECORD_BYTES, RECORD_NAME, STATE_NAME, Condition, StateFile
from fable_exec.statefile.documents import encode_document
from fable_exec.statefile.records import encode_record
from tests.statefile.states import FORM, NEW, OLD, OUTCOME
from tests.tracing import Act, Told

TORN = b'{"execution_id": "7f0c'
KNOWN = {".lock", STATE_NAME, RECORD_NAME}


@attrs.frozen
class Scene:
    """`made` are the files beforehand; `prepare` gives the act; `after` looks at what is left and gives it a word."""

    made: dict[str, bytes]
    prepare: Callable[[StateFile], Act]
    after: Callable[[StateFile], str]

    def lay_out(self, directory: Path) -> StateFile:
        directory.mkdir(mode=0o700)
        for name, content in self.made.items():
            (directory / name).touch(mode=0o600)
            (directory / name).write_bytes(content)
        return StateFile(directory, FORM)


def left_in(state: StateFile) -> list[str]:
    """Names that are not those of the room: temporary files, and nothing else, unless something was moved aside."""
    names = [name for name in os.listdir(state.directory) if name not in KNOWN and ".unreadable-" not in name]
    assert all(name.startswith(".state-") and name.endswith(".tmp") for name in names), names
    return names


def word_of(state: StateFile) -> str:
    reading = state.read()
    if reading is None:
        return "absent"
    return {str(OLD): "old", str(NEW): "new", str({**OLD, **OUTCOME}): "ended"}[str(dict_as(reading.document))]


def dict_as(document: dict[str, Any]) -> dict[str, Any]:
    """In the order of the constants."""
    return {name: document[name] for name in (*OLD, *OUTCOME) if name in document}


def next_writer_is_served(state: StateFile) -> None:
    """At once, and whatever was left is gone then."""
    with state.locked(0) as held:
        reading = held.read()
        held.write(OLD if reading is None else reading.document)
        assert left_in(state) == []


def write_new(state: StateFile) -> Act:
    def act() -> None:
        with state.locked() as held:
            held.write(NEW)

    return act


def after_a_write(state: StateFile) -> str:
    word = word_of(state)
    next_writer_is_served(state)
    return word


def reserve(state: StateFile) -> Act:
    return lambda: state.terminal_record().close()


def after_reserving(state: StateFile) -> str:
    reading = state.read()
    assert reading is not None and reading.document == OLD and reading.record in (Condition.ABSENT, Condition.EMPTY)
    status = os.stat(state.directory / RECORD_NAME) if reading.record is Condition.EMPTY else None
    certain = status is not None and status.st_size == RECORD_BYTES and status.st_blocks * 512 >= RECORD_BYTES
    with state.terminal_record() as record:
        assert record.read().condition is Condition.EMPTY
    assert os.stat(state.directory / RECORD_NAME).st_blocks * 512 >= RECORD_BYTES
    next_writer_is_served(state)
    return "certain" if certain else "begun"


def conclude(state: StateFile) -> Act:
    record = state.terminal_record()
    return lambda: state.conclude(record, OUTCOME)


def write_record(state: StateFile) -> Act:
    record = state.terminal_record()
    return lambda: record.write(OUTCOME)


def after_concluding(state: StateFile) -> str:
    word = word_of(state)
    next_writer_is_served(state)
    assert word_of(state) == word
    return word


def quarantine(state: StateFile) -> Act:
    def act() -> int:
        with state.locked() as held:
            return len(held.quarantine())

    return act


UNREADABLE = {STATE_NAME: TORN, RECORD_NAME: encode_record(OUTCOME, FORM)}


def after_a_quarantine(state: StateFile) -> str:
    """Every byte is still there, and the place is free only once both files are away."""
    kept = {path.read_bytes() for path in state.directory.iterdir() if path.name != ".lock"}
    assert kept == set(UNREADABLE.values())
    assert len(os.listdir(state.directory)) - (state.directory / ".lock").exists() == len(UNREADABLE)
    try:
        assert state.read() is None
    except StateUnreadable:
        with state.locked(0) as held:
            assert held.quarantine()
        assert state.read() is None
        return "unreadable"
    assert not (state.directory / RECORD_NAME).exists() and not (state.directory / STATE_NAME).exists()
    return "free"


def read(state: StateFile) -> Act:
    def act() -> str:
        return word_of(state)

    return act


SCENES = {
    "first write": Scene({}, write_new, after_a_write),
    "replace": Scene({STATE_NAME: encode_document(OLD, FORM)}, write_new, after_a_write),
    "reserve": Scene({STATE_NAME: encode_document(OLD, FORM)}, reserve, after_reserving),
    "conclude": Scene({STATE_NAME: encode_document(OLD, FORM), RECORD_NAME: bytes(RECORD_BYTES)}, conclude, after_concluding),
    "record": Scene({STATE_NAME: encode_document(OLD, FORM), RECORD_NAME: bytes(RECORD_BYTES)}, write_record, after_concluding),
    "quarantine": Scene(UNREADABLE, quarantine, after_a_quarantine),
    "read": Scene({STATE_NAME: encode_document(OLD, FORM), RECORD_NAME: encode_record(OUTCOME, FORM)}, read, word_of),
}


def check_told(scene: str, told: Told, word: str, faults: int) -> None:
    """What an act may say of itself, given what is left behind, when `faults` of its calls failed."""
    assert told.raised in ("", "OSError", "TimeoutError", "InterruptedError", "PermissionError"), told
    assert told.left_open == 0, told
    if scene == "read":
        assert told.raised or told.value == "ended"
    if scene in ("first write", "replace") and not told.raised:
        assert word == "new"
    if scene == "reserve" and not told.raised:
        assert word == "certain"
    if scene in ("conclude", "record"):
        assert (word == "ended") >= (not told.raised)
    if scene == "conclude":
        assert faults > 1 or not told.raised, "one failing call does not lose the outcome"
    if scene == "quarantine" and not told.raised:
        assert (word, told.value) == ("free", 2)

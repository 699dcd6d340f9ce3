"""What cannot be believed is told, never taken for nothing, never written over, and moved aside on request."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from fable_exec.errors import StateUnreadable
from fable_exec.statefile import (
    LOCK_NAME,
    RECORD_BYTES,
    RECORD_NAME,
    STATE_NAME,
    Condition,
    Form,
    Reading,
    Source,
    StateFile,
)
from fable_exec.statefile.documents import encode_document
from fable_exec.statefile.opening import read_all
from fable_exec.statefile.records import encode_record
from tests.statefile.states import ENDED, FORM, NEW, OLD, OUTCOME, directory_in, put, state_in

BAD_STATES = {
    "torn": encode_document(OLD, FORM)[:-20],
    "empty": b"",
    "zeros": bytes(2048),
    "foreign": b'{"hello": "world"}\n',
    "another's": encode_document({**OLD, "execution_id": "another"}, Form(1, {"execution_id": "another"})),
    "newer": encode_document({**OLD, "schema_version": 2}, Form(2, FORM.identity)),
}
WORDS = {"empty": "torn", "zeros": "torn", "another's": "foreign"}


@pytest.mark.parametrize("kind", BAD_STATES)
def test_what_cannot_be_believed_is_told_and_never_taken_for_nothing_or_written_over(tmp_path: Path, kind: str) -> None:
    state = state_in(tmp_path)
    put(state, STATE_NAME, BAD_STATES[kind])
    with pytest.raises(StateUnreadable) as caught:
        state.read()
    with state.locked() as held:
        with pytest.raises(StateUnreadable):
            held.require()
        with pytest.raises(StateUnreadable):
            held.write(NEW)
        assert (state.directory / STATE_NAME).read_bytes() == BAD_STATES[kind]
        (moved,) = held.quarantine()
        held.write(NEW)
    assert moved.read_bytes() == BAD_STATES[kind]
    assert (caught.value.reason, caught.value.path) == (WORDS.get(kind, kind), str(state.directory / STATE_NAME))
    assert caught.value.outcome is None
    assert pickle.loads(pickle.dumps(caught.value)).__dict__ == caught.value.__dict__


@pytest.mark.parametrize("kind", BAD_STATES)
def test_quarantine_keeps_it_under_another_name_and_frees_the_place(tmp_path: Path, kind: str) -> None:
    state = state_in(tmp_path)
    put(state, STATE_NAME, BAD_STATES[kind])
    put(state, RECORD_NAME, encode_record(OUTCOME, FORM))
    with pytest.raises(StateUnreadable) as caught:
        state.read()
    assert caught.value.outcome == OUTCOME, "the record is whole, and tells how it ended all the same"
    with state.locked() as held:
        moved = held.quarantine()
        assert held.read() is None
        assert held.quarantine() == []
        held.write(NEW)
        assert held.quarantine() == []
    assert {path.read_bytes() for path in moved} == {BAD_STATES[kind], encode_record(OUTCOME, FORM)}
    assert all(".unreadable-" in path.name and path.parent == state.directory for path in moved)
    assert state.read() == Reading(NEW, Source.STATE_FILE, Condition.ABSENT)


def test_a_hundred_quarantines_lose_nothing(tmp_path: Path) -> None:
    state = state_in(tmp_path)
    for number in range(100):
        put(state, STATE_NAME, b"%d" % number)
        with state.locked() as held:
            assert len(held.quarantine()) == 1
    kept = [path.read_bytes() for path in state.directory.iterdir() if path.name != LOCK_NAME]
    assert sorted(kept, key=int) == [b"%d" % number for number in range(100)]


def test_quarantine_never_overwrites_also_where_the_kernel_cannot_promise_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fable_exec import _sys
    from fable_exec._sys import windows

    monkeypatch.setattr(os, "urandom", lambda size: bytes(size))
    state = state_in(tmp_path)
    for rename in (_sys.rename_noreplace, windows.rename_noreplace):
        monkeypatch.setattr(_sys, "rename_noreplace", rename)
        put(state, STATE_NAME, b"second")
        taken = state.directory / f"{STATE_NAME}.unreadable-{bytes(8).hex()}"
        taken.write_bytes(b"first")
        with state.locked() as held:
            with pytest.raises(FileExistsError):
                held.quarantine()
            assert taken.read_bytes() == b"first"
            assert (state.directory / STATE_NAME).read_bytes() == b"second"
            taken.unlink()
            assert held.quarantine() == [taken]
        assert taken.read_bytes() == b"second"
        taken.unlink()


@pytest.mark.parametrize("record", [encode_record(OUTCOME, FORM), b"torn".ljust(RECORD_BYTES, b"\0")])
def test_a_written_record_without_a_state_is_not_taken_for_a_free_place(tmp_path: Path, record: bytes) -> None:
    state = state_in(tmp_path)
    put(state, RECORD_NAME, record)
    with pytest.raises(StateUnreadable) as caught:
        state.read()
    assert caught.value.reason == "missing"
    with state.locked() as held:
        with pytest.raises(StateUnreadable):
            held.write({**OLD, **OUTCOME})
        assert [path.read_bytes() for path in held.quarantine()] == [record]
        assert held.read() is None


def test_an_execution_that_begins_and_ends_during_one_look_is_seen_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader found no state, was held up for the whole life of an execution, and finds its record then."""
    state = state_in(tmp_path)

    def held_up(name: str, dir_fd: int, at_most: int) -> bytes | None:
        monkeypatch.undo()
        found = read_all(name, dir_fd, at_most)
        with state.terminal_record() as record:
            with state.locked() as held:
                held.write(OLD)
            state.conclude(record, OUTCOME)
        return found

    monkeypatch.setattr("fable_exec.statefile.state.read_all", held_up)
    assert state.read() == Reading(ENDED, Source.STATE_FILE, Condition.WHOLE)


def test_the_record_of_another_execution_is_told_before_anything_is_written(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    put(state, RECORD_NAME, encode_record(OUTCOME, Form(1, {"execution_id": "another"})))
    with pytest.raises(StateUnreadable) as caught:
        state.read()
    assert (caught.value.reason, caught.value.path) == ("foreign", str(state.directory / RECORD_NAME))
    with state.locked() as held, pytest.raises(StateUnreadable):
        held.write(NEW)
    with state.terminal_record() as record:
        for act in (record.read, lambda: record.write(OUTCOME), lambda: state.conclude(record, OUTCOME)):
            with pytest.raises(StateUnreadable) as caught:
                act()
            assert (caught.value.reason, caught.value.path) == ("foreign", str(state.directory / RECORD_NAME))
    assert (state.directory / STATE_NAME).read_bytes() == encode_document(OLD, FORM)


def test_a_message_is_bounded_and_addresses_no_terminal(tmp_path: Path) -> None:
    state = StateFile(directory_in(tmp_path, "\x1b]0;x\x07" + "x" * 200), FORM)
    put(state, STATE_NAME, encode_document({**OLD, "execution_id": "\x1b" * 3000}, Form(1, {"execution_id": "\x1b" * 3000})))
    with pytest.raises(StateUnreadable) as caught:
        state.read()
    assert str(caught.value).isprintable() and len(str(caught.value)) < 800

"""An outcome is concluded once: in the terminal record, then in the state."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fable_exec.errors import Conflict
from fable_exec.statefile import (
    MAX_DOCUMENT_BYTES,
    MAX_OUTCOME_BYTES,
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
from fable_exec.statefile.records import encode_record
from tests.statefile.states import ENDED, FORM, OLD, OUTCOME, directory_in, put, state_in


def test_the_records_space_is_certain_before_it_is_needed(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    for _ in range(2):
        with state.terminal_record() as record:
            assert record.read().condition is Condition.EMPTY
        status = (state.directory / RECORD_NAME).stat()
        assert status.st_size == RECORD_BYTES and status.st_blocks * 512 >= RECORD_BYTES
    reading = state.read()
    assert reading == Reading(OLD, Source.STATE_FILE, Condition.EMPTY)


def test_without_a_promise_of_the_kernel_zeros_take_the_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What macOS does; and a record that is there already is not written over."""
    from fable_exec import _sys
    from fable_exec._sys import darwin

    monkeypatch.setattr(_sys, "reserve_space", darwin.reserve_space)
    state = state_in(tmp_path, OLD)
    with state.terminal_record() as record:
        assert (state.directory / RECORD_NAME).stat().st_blocks * 512 >= RECORD_BYTES
        assert state.conclude(record, OUTCOME)
    block = (state.directory / RECORD_NAME).read_bytes()
    for length in (len(block.rstrip(b"\0")), 4096, RECORD_BYTES - 1, RECORD_BYTES * 4):
        os.truncate(state.directory / RECORD_NAME, length)
        assert state.read() == Reading(ENDED, Source.STATE_FILE, Condition.WHOLE)
        with state.terminal_record() as record:
            assert record.read().outcome == OUTCOME
        assert (state.directory / RECORD_NAME).read_bytes()[:RECORD_BYTES] == block


def test_an_outcome_with_tuples_is_the_one_with_lists_and_denies_nothing(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    with state.terminal_record() as record:
        assert state.conclude(record, {**OUTCOME, "pids": (1, (2, 3))})
    assert state.read() == Reading({**ENDED, "pids": [1, [2, 3]]}, Source.STATE_FILE, Condition.WHOLE)


def test_an_outcome_is_concluded_in_both_files(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    with state.terminal_record() as record:
        assert state.conclude(record, OUTCOME)
    assert state.read() == Reading(ENDED, Source.STATE_FILE, Condition.WHOLE)
    assert (state.directory / STATE_NAME).read_bytes() == encode_document(ENDED, FORM)
    assert (state.directory / RECORD_NAME).read_bytes() == encode_record(OUTCOME, FORM)


def test_the_record_alone_tells_how_it_ended(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    with state.terminal_record() as record:
        record.write(OUTCOME)
    reading = state.read()
    assert reading == Reading(ENDED, Source.TERMINAL_RECORD, Condition.WHOLE)
    with state.locked() as held:
        held.write(held.require().document)
    assert state.read() == Reading(ENDED, Source.STATE_FILE, Condition.WHOLE)


@pytest.mark.parametrize("length", [1, 100, 4096, RECORD_BYTES - 1])
def test_a_torn_record_leaves_the_state_as_it_was_and_can_be_written(tmp_path: Path, length: int) -> None:
    state = state_in(tmp_path, OLD)
    outcome = {**OUTCOME, "descendants": {"remaining_pids": list(range(2500))}}
    put(state, RECORD_NAME, encode_record(outcome, FORM)[:length].ljust(RECORD_BYTES, b"\0"))
    whole = len(encode_record(outcome, FORM).rstrip(b"\0")) <= length
    reading = state.read()
    assert reading is not None and reading.record is (Condition.WHOLE if whole else Condition.TORN)
    assert reading.document == ({**OLD, **outcome} if whole else OLD)
    with state.terminal_record() as record:
        assert state.conclude(record, outcome)
    assert state.read() == Reading({**OLD, **outcome}, Source.STATE_FILE, Condition.WHOLE)


def test_a_torn_record_does_not_hide_the_outcome_that_the_state_has(tmp_path: Path) -> None:
    state = state_in(tmp_path, ENDED)
    put(state, RECORD_NAME, encode_record(OUTCOME, FORM)[:120].ljust(RECORD_BYTES, b"\0"))
    assert state.read() == Reading(ENDED, Source.STATE_FILE, Condition.TORN)


def test_an_outcome_is_recorded_once_and_is_final(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    other = {**OUTCOME, "termination_reason": "crashed", "returncode": 1}
    with state.terminal_record() as record, state.terminal_record() as another:
        assert state.conclude(record, OUTCOME)
        before = (state.directory / RECORD_NAME).read_bytes(), (state.directory / STATE_NAME).read_bytes()
        assert state.conclude(another, dict(reversed(OUTCOME.items()))), "the same again is no conflict"
        with pytest.raises(Conflict, match="the first one is final"):
            another.write(other)
        with pytest.raises(Conflict, match="the first one is final"):
            state.conclude(another, other)
        for document in (OLD, {**OLD, **other}, {**ENDED, "state": "running"}):
            with state.locked() as held, pytest.raises(Conflict, match="recorded and final"):
                held.write(document)
        with state.locked() as held:
            held.write({**ENDED, "labels": "more may be added"})
            held.write(ENDED)
    assert before == ((state.directory / RECORD_NAME).read_bytes(), (state.directory / STATE_NAME).read_bytes())


MANY = {**OUTCOME, "descendants": {"remaining_pids": [10**6 + number for number in range(3000)]}}


def test_an_outcome_that_is_too_long_for_the_record_is_in_the_state_and_its_end_in_both(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    with state.terminal_record() as record:
        record.write(MANY)
        assert state.read() == Reading(ENDED, Source.TERMINAL_RECORD, Condition.ABRIDGED)
        assert state.conclude(record, MANY)
        assert state.conclude(record, MANY), "the same again is no conflict"
        assert state.read() == Reading({**OLD, **MANY}, Source.STATE_FILE, Condition.ABRIDGED)
        for other in (OUTCOME, {**MANY, "descendants": {"remaining_pids": list(range(8000))}}, {**MANY, "returncode": 1}):
            with pytest.raises(Conflict, match="the first one is final"):
                record.write(other)
    with state.locked() as held, pytest.raises(Conflict, match="final: returncode"):
        held.write({**OLD, **MANY, "returncode": 1})


@pytest.mark.parametrize(
    ("note", "outcome", "told"),
    [
        ("x" * (MAX_DOCUMENT_BYTES - 20_000), {**OUTCOME, "list": "y" * 30_000}, OUTCOME),
        ("x", {**OUTCOME, "list": "y" * MAX_DOCUMENT_BYTES}, OUTCOME),
    ],
)
def test_an_outcome_that_is_too_long_for_the_state_too_is_concluded_without_its_longest_members(
    tmp_path: Path, note: str, outcome: dict[str, Any], told: dict[str, Any]
) -> None:
    document = {**OLD, "note": note}
    state = state_in(tmp_path, document)
    with state.terminal_record() as record:
        assert not state.conclude(record, outcome)
    assert state.read() == Reading({**document, **told}, Source.STATE_FILE, Condition.ABRIDGED)


def test_a_state_without_any_room_left_is_ended_by_the_record(tmp_path: Path) -> None:
    room = MAX_DOCUMENT_BYTES - len(encode_document({**OLD, "note": ""}, FORM))
    document = {**OLD, "note": "x" * room}
    state = state_in(tmp_path, document)
    with state.terminal_record() as record:
        assert not state.conclude(record, OUTCOME)
        assert state.read() == Reading({**document, **OUTCOME}, Source.TERMINAL_RECORD, Condition.WHOLE)
        (state.directory / RECORD_NAME).unlink()
        with pytest.raises(FileNotFoundError, match="terminal record"):
            state.conclude(record, OUTCOME)


def test_a_form_that_leaves_no_room_for_an_end_is_refused_before_the_start(tmp_path: Path) -> None:
    state = StateFile(directory_in(tmp_path), Form(1, {"execution_id": "x" * (MAX_OUTCOME_BYTES - 200)}))
    with pytest.raises(ValueError, match="too long for a terminal record"):
        state.terminal_record()
    assert os.listdir(state.directory) == []


@pytest.mark.parametrize("outcome", [{"note": float("nan")}, {"note": Path("x")}, {"note": {1: 2}}, {"execution_id": "y"}])
def test_an_outcome_that_cannot_be_recorded_is_refused_before_anything_is_written(
    tmp_path: Path, outcome: dict[str, Any]
) -> None:
    state = state_in(tmp_path, OLD)
    with state.terminal_record() as record, pytest.raises(ValueError):
        state.conclude(record, outcome)
    assert state.read() == Reading(OLD, Source.STATE_FILE, Condition.EMPTY)


def test_a_record_that_was_removed_is_not_written_into_nowhere(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    with state.terminal_record() as record:
        (state.directory / RECORD_NAME).unlink()
        with pytest.raises(FileNotFoundError):
            record.write(OUTCOME)
        assert state.conclude(record, OUTCOME), "state.json takes it alone"
    assert state.read() == Reading(ENDED, Source.STATE_FILE, Condition.ABSENT)


def test_when_neither_can_be_written_the_failure_tells_both(tmp_path: Path) -> None:
    state = state_in(tmp_path)
    with state.terminal_record() as record:
        (state.directory / RECORD_NAME).unlink()
        with pytest.raises(FileNotFoundError, match="terminal record") as caught:
            state.conclude(record, OUTCOME)
    assert "there is no state" in str(caught.value.__cause__)


def test_a_closed_record_writes_to_no_other_file(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    record = state.terminal_record()
    record.close()
    record.close()
    with (tmp_path / "other").open("w+b") as other:
        with pytest.raises(OSError):
            record.write(OUTCOME)
        assert other.read() == b""

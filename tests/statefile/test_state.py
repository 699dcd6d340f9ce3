"""Reading, writing under the lock, concluding once, and moving aside what cannot be believed."""

from __future__ import annotations

import os
import pickle
import stat
from pathlib import Path
from typing import Any

import pytest

from fable_exec.errors import Conflict, StateUnreadable
from fable_exec.statefile import (
    LOCK_NAME,
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
from fable_exec.statefile.opening import read_all
from fable_exec.statefile.records import encode_record
from fable_exec.testing.leaks import nothing_left
from tests.statefile.states import FORM, NEW, OLD, OUTCOME, directory_in, state_in

ENDED = {**OLD, **OUTCOME}


def put(state: StateFile, name: str, content: bytes) -> None:
    (state.directory / name).touch(mode=0o600)
    (state.directory / name).write_bytes(content)


def modes(directory: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.lstat().st_mode) for path in directory.iterdir()}


def test_a_state_is_written_whole_and_read_without_the_lock(tmp_path: Path) -> None:
    state = state_in(tmp_path)
    assert state.read() is None
    with state.locked() as held:
        assert held.read() is None
        held.write(OLD)
        assert state.read() == held.read() == Reading(OLD, Source.STATE_FILE, Condition.ABSENT)
        held.write(NEW)
    assert (state.directory / STATE_NAME).read_bytes() == encode_document(NEW, FORM)
    assert modes(state.directory) == {STATE_NAME: 0o600, LOCK_NAME: 0o600}


def test_reading_makes_nothing_and_a_missing_directory_is_no_state(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "execution", FORM)
    assert state.read() is None
    with pytest.raises(FileNotFoundError):
        with state.locked():
            raise AssertionError("there is nothing to lock")
    with pytest.raises(FileNotFoundError):
        state.terminal_record()
    assert os.listdir(tmp_path) == []
    state.directory.mkdir(mode=0o700)
    assert state.read() is None
    assert os.listdir(state.directory) == []


def test_what_was_read_is_the_callers_to_change(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    with state.locked() as held:
        document = held.require().document
        document["note"] = "changed"
        held.write(document)
    reading = state.read()
    assert reading is not None and reading.document == {**OLD, "note": "changed"}


def test_a_state_that_must_be_there_and_is_not(tmp_path: Path) -> None:
    with state_in(tmp_path).locked() as held:
        with pytest.raises(FileNotFoundError, match="there is no state"):
            held.require()


@pytest.mark.parametrize("mask", [0, 0o022, 0o077, 0o777])
def test_every_file_is_0600_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    directory = directory_in(tmp_path)
    before = os.umask(mask)
    try:
        state = StateFile(directory, FORM)
        with state.locked() as held, state.terminal_record() as record:
            held.write(OLD)
            record.write(OUTCOME)
        with state.locked() as held:
            held.write(ENDED)
    finally:
        os.umask(before)
    assert modes(directory) == dict.fromkeys((STATE_NAME, LOCK_NAME, RECORD_NAME), 0o600)


@pytest.mark.requires_ability("ordinary_user")
@pytest.mark.parametrize("name", [LOCK_NAME, RECORD_NAME])
def test_a_file_whose_maker_died_under_a_umask_of_0777_can_be_used(tmp_path: Path, name: str) -> None:
    state = state_in(tmp_path)
    (state.directory / name).touch(mode=0o600)
    (state.directory / name).chmod(0)
    with state.locked() as held, state.terminal_record():
        held.write(OLD)
    assert modes(state.directory)[name] == 0o600


def test_a_temporary_file_of_a_dead_writer_is_removed_by_the_next_and_nothing_else_is(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    foreign = [".state-0123456789abcde.tmp", ".state-0123456789abcdef.tmpx", "state.json.tmp", "runner.log", "spec.md"]
    for name in [*foreign, ".state-0123456789abcdef.tmp"]:
        put(state, name, b"partial")
    (state.directory / ".state-00000000000000ff.tmp").symlink_to("spec.md")
    state.read()
    assert (state.directory / ".state-0123456789abcdef.tmp").exists()
    with state.locked() as held:
        held.write(NEW)
    assert {path.name for path in state.directory.iterdir()} == {*foreign, STATE_NAME, LOCK_NAME}


def test_the_directory_is_the_one_that_was_named_wherever_the_process_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory_in(tmp_path)
    monkeypatch.chdir(tmp_path)
    state = StateFile(Path("execution"), FORM)
    with state.locked() as held:
        held.write(OLD)
    monkeypatch.chdir("/")
    assert state.read() is not None
    assert pickle.loads(pickle.dumps(state)) == state


@pytest.mark.parametrize(
    "document",
    [
        {},
        {**OLD, "schema_version": 2},
        {**OLD, "note": float("nan")},
        {**OLD, "execution_id": "x"},
        {**OLD, "note": Path("x")},
        {**OLD, "note": {1: 2}},
        {**OLD, 1: 2},
    ],
)
def test_what_could_not_be_read_again_is_refused_and_changes_nothing(tmp_path: Path, document: dict[str, Any]) -> None:
    state = state_in(tmp_path, OLD)
    before = (state.directory / STATE_NAME).stat()
    with state.locked() as held, pytest.raises(ValueError):
        held.write(document)
    assert (state.directory / STATE_NAME).stat() == before


def test_nothing_is_left_open(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    with nothing_left():
        with state.terminal_record() as record, state.locked() as held:
            held.write(NEW)
            record.read()
        state.read()
        put(state, STATE_NAME, b"")
        with pytest.raises(StateUnreadable):
            state.read()
        (state.directory / STATE_NAME).chmod(0o644)
        with pytest.raises(StateUnreadable), state.locked() as held:
            held.read()
        state.directory.chmod(0o755)
        with pytest.raises(StateUnreadable):
            state.read()
        state.directory.chmod(0o700)


# the terminal record


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


# what cannot be believed

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

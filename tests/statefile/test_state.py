"""Reading a state without its lock, and writing it under that."""

from __future__ import annotations

import os
import pickle
import stat
from pathlib import Path
from typing import Any

import pytest

from fable_exec.errors import StateUnreadable
from fable_exec.statefile import (
    LOCK_NAME,
    RECORD_NAME,
    STATE_NAME,
    Condition,
    Reading,
    Source,
    StateFile,
)
from fable_exec.statefile.documents import encode_document
from fable_exec.testing.leaks import nothing_left
from tests.statefile.states import ENDED, FORM, NEW, OLD, OUTCOME, directory_in, put, state_in


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

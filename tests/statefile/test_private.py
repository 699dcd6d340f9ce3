"""Files and directories that another could have put there or changed are refused, whichever of the three it is."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fable_exec.errors import StateUnreadable
from fable_exec.privatefiles import fault_of
from fable_exec.statefile import LOCK_NAME, RECORD_NAME, STATE_NAME, StateFile
from tests.statefile.states import FORM, NEW, OLD, state_in


def symlink(path: Path) -> None:
    path.rename(path.parent / "elsewhere")
    path.symlink_to("elsewhere")


def hard_link(path: Path) -> None:
    os.link(path, path.parent / "second")


def replaced_by(make: Callable[[Path], Any]) -> Callable[[Path], None]:
    def replace(path: Path) -> None:
        path.unlink()
        make(path)

    return replace


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(path.parent)  # a socket's path is at most 108 bytes
        try:
            listening.bind(path.name)
        finally:
            os.chdir(here)
    path.chmod(0o600)


TREATMENTS: dict[str, Callable[[Path], None]] = {
    "symbolic link": symlink,
    "link to nowhere": replaced_by(lambda path: path.symlink_to("nowhere")),
    "hard link": hard_link,
    "group may write": lambda path: path.chmod(0o620),
    "group may read": lambda path: path.chmod(0o640),
    "others may read": lambda path: path.chmod(0o604),
    "FIFO": replaced_by(lambda path: os.mkfifo(path, 0o600)),
    "directory": replaced_by(lambda path: path.mkdir(mode=0o700)),
    "socket": replaced_by(a_socket),
}


def full(tmp_path: Path) -> StateFile:
    state = state_in(tmp_path, OLD)
    state.terminal_record().close()
    return state


def acts(state: StateFile) -> dict[str, Callable[[], object]]:
    def write() -> None:
        with state.locked() as held:
            held.write(NEW)

    return {STATE_NAME: state.read, RECORD_NAME: state.terminal_record, LOCK_NAME: write}


@pytest.mark.parametrize("treatment", TREATMENTS)
@pytest.mark.parametrize("name", [STATE_NAME, RECORD_NAME, LOCK_NAME])
def test_a_file_that_another_could_have_prepared_is_refused_at_once(tmp_path: Path, name: str, treatment: str) -> None:
    state = full(tmp_path)
    content = (state.directory / STATE_NAME).read_bytes()
    TREATMENTS[treatment](state.directory / name)
    with pytest.raises(StateUnreadable) as caught:
        acts(state)[name]()
    assert (caught.value.reason, caught.value.path) == ("not-private", str(state.directory / name))
    assert name == STATE_NAME or (state.directory / STATE_NAME).read_bytes() == content
    assert not (state.directory / "nowhere").exists()
    if name == RECORD_NAME:
        with pytest.raises(StateUnreadable):
            state.read()


@pytest.mark.parametrize("treatment", TREATMENTS)
@pytest.mark.parametrize("name", [STATE_NAME, RECORD_NAME])
def test_such_a_file_can_be_moved_aside_without_being_followed(tmp_path: Path, name: str, treatment: str) -> None:
    state = full(tmp_path)
    TREATMENTS[treatment](state.directory / name)
    kind = stat.S_IFMT((state.directory / name).lstat().st_mode)
    with state.locked() as held:
        moved = held.quarantine()
        assert held.read() is None
    assert kind in [stat.S_IFMT(path.lstat().st_mode) for path in moved]
    assert sorted(path.name.split(".unreadable")[0] for path in moved) == [STATE_NAME, RECORD_NAME]


@pytest.mark.requires_ability("root")
@pytest.mark.parametrize("name", [STATE_NAME, RECORD_NAME, LOCK_NAME])
def test_a_file_of_another_user_is_refused(tmp_path: Path, name: str) -> None:
    state = full(tmp_path)
    os.chown(state.directory / name, 12345, 12345)
    with pytest.raises(StateUnreadable, match="another user"):
        acts(state)[name]()


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701, 0o720])
def test_a_directory_that_others_may_enter_is_refused(tmp_path: Path, mode: int) -> None:
    state = full(tmp_path)
    state.directory.chmod(mode)
    for act in (*acts(state).values(), state.read):
        with pytest.raises(StateUnreadable, match="others may enter it") as caught:
            act()
        assert (caught.value.reason, caught.value.path) == ("not-private", str(state.directory))


@pytest.mark.requires_ability("root")
def test_the_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    state = full(tmp_path)
    os.chown(state.directory, 12345, 12345)
    with pytest.raises(StateUnreadable, match="another user"):
        state.read()


def test_a_link_to_the_directory_is_refused(tmp_path: Path) -> None:
    full(tmp_path)
    (tmp_path / "link").symlink_to("execution")
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(StateUnreadable, match="symbolic link"):
            StateFile(tmp_path / name, FORM).read()


def test_a_file_that_was_replaced_while_it_was_open_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "new").touch(mode=0o600)
    (tmp_path / "old").touch(mode=0o600)
    fd = os.open(tmp_path / "old", os.O_RDONLY)
    try:
        (tmp_path / "new").rename(tmp_path / "old")
        assert os.fstat(fd).st_nlink == 0
        assert fault_of(os.fstat(fd)) is None
    finally:
        os.close(fd)

"""The file system that fails: every call of an act once, what is counted and what is not, and the library under it."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from fable_exec.errors import FableExecError
from fable_exec.pathguard import Workspace, WorkspacePath, is_temporary_name
from fable_exec.testing import FaultyFiles, each_fault
from fable_exec.testing.faults import CHANGING, READING
from fable_exec.testing.leaks import open_descriptors

OLD, NEW = b"old " * 100, b"new " * 100


def carefully(path: Path) -> None:
    """A temporary file, its sync, its rename."""
    temporary = path.with_suffix(".tmp")
    try:
        with open(temporary, "wb", buffering=0) as file:
            rest = memoryview(NEW)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def in_place(path: Path) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(NEW)


def outcomes(path: Path, act: Any, **how: Any) -> list[tuple[str, bool, bytes]]:
    faults = each_fault(lambda: act(path), before=lambda: path.write_bytes(OLD), **how)
    return [(fault.name, fault.raised is not None, path.read_bytes()) for fault in faults]


def test_each_call_fails_once_and_the_rest_is_let_through(tmp_path: Path) -> None:
    found = outcomes(tmp_path / "f", carefully)
    assert found == [("open", True, OLD), ("write", True, OLD), ("fsync", True, OLD), ("replace", True, OLD)]
    assert [each.name for each in tmp_path.iterdir()] == ["f"]
    assert outcomes(tmp_path / "f", carefully, halved=True) == [("write", False, NEW)]


def test_code_that_tears_a_file_is_found_out(tmp_path: Path) -> None:
    assert ("write", True, b"") in outcomes(tmp_path / "f", in_place, error=errno.EIO)
    assert outcomes(tmp_path / "f", in_place, halved=True) == [("write", False, NEW[: len(NEW) // 2])]


def test_a_file_is_read_and_written_in_every_way_that_files_are(tmp_path: Path) -> None:
    with FaultyFiles() as faults:
        with open(tmp_path / "f", "w") as file:
            file.writelines(["a\n", "b\n"])
        with open(tmp_path / "f") as file:
            assert (next(file), [*file]) == ("a\n", ["b\n"])
    assert faults.calls == ["open", "write", "write", "open"]


def test_the_error_is_the_one_that_was_asked_for_and_says_where_it_comes_from(tmp_path: Path) -> None:
    faults = list(each_fault(lambda: in_place(tmp_path / "f"), error=errno.EDQUOT))
    assert [(fault.number, fault.name) for fault in faults] == [(0, "open"), (1, "write")]
    for fault in faults:
        assert isinstance(fault.raised, OSError) and fault.raised.errno == errno.EDQUOT
        assert f"(call {fault.number} of a test, {fault.name})" in str(fault.raised)


def test_what_is_read_is_counted_where_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    with FaultyFiles(names=READING) as faults:
        os.listdir(tmp_path)
        (tmp_path / "a").stat()
    assert faults.calls == ["listdir", "stat"]
    with FaultyFiles(0, error=errno.EACCES, names=READING), pytest.raises(PermissionError):
        os.listdir(tmp_path)


def test_other_threads_are_let_alone_and_nothing_stays_replaced(tmp_path: Path) -> None:
    before = {name: getattr(os, name) for name in CHANGING | READING if hasattr(os, name)}
    opening = open
    with FaultyFiles(0) as faults:
        other = threading.Thread(target=in_place, args=(tmp_path / "theirs",))
        other.start()
        other.join()
        with pytest.raises(OSError, match="of a test"):
            os.mkdir(tmp_path / "ours")
    assert (tmp_path / "theirs").read_bytes() == NEW
    assert faults.calls == ["mkdir"]
    assert {name: getattr(os, name) for name in before} == before and open is opening


HOW: list[dict[str, Any]] = [{"error": errno.ENOSPC}, {"error": errno.EIO}, {"halved": True}]


@pytest.mark.parametrize("how", HOW, ids=str)
def test_the_librarys_own_writes_are_whole_whatever_fails(how: dict[str, Any], workspace: Path) -> None:
    def lay_out() -> None:
        for left in workspace.iterdir():
            left.unlink()
        (workspace / "f").write_bytes(OLD)

    def act() -> None:
        with Workspace.open(workspace) as opened:
            opened.write_replace(WorkspacePath.parse("f"), NEW)

    failed, open_before = set(), open_descriptors()
    for fault in each_fault(act, before=lay_out, names=CHANGING | READING, **how):
        found = (workspace / "f").read_bytes()
        assert found in (OLD, NEW), fault
        assert found == NEW if fault.raised is None else isinstance(fault.raised, (FableExecError, OSError)), fault
        left = [each.name for each in workspace.iterdir() if each.name != "f"]
        assert len(left) <= (fault.name == "unlink") and all(map(is_temporary_name, left)), fault
        assert open_descriptors() == open_before, fault
        failed.add(fault.name)
    assert failed >= ({"write"} if "halved" in how else {"open", "write", "fsync"})

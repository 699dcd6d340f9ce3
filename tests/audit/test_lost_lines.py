"""Lines that cannot be written: refused or counted, and told of by the next one."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fable_exec.audit import AuditLog, verify_log
from fable_exec.errors import AuditUnavailable
from tests import disks
from tests.audit.logs import lines


def fail_once(monkeypatch: pytest.MonkeyPatch, taken: int | None = None) -> None:
    """The next os.write takes only `taken` bytes, or fails with ENOSPC."""
    real = os.write

    def write(fd: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", real)
        if taken is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data[:taken])

    monkeypatch.setattr(os, "write", write)


@pytest.mark.parametrize("taken", [None, 1, 100, 200])
def test_refuse_raises_and_the_next_line_tells_of_the_lost_one(
    taken: int | None, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with AuditLog(path) as log:
        log.append("x")
        before = path.read_bytes()
        fail_once(monkeypatch, taken)
        with pytest.raises(AuditUnavailable) as caught:
            log.append("lost")
        assert caught.value.errno == errno.ENOSPC
        assert path.read_bytes() == before
        log.append("x")
    assert [line["kind"] for line in lines(path)] == ["x", "gap", "x"]
    assert verify_log(path).ok


@pytest.mark.parametrize("taken", [None, 50])
def test_continue_counts_the_lost_lines_and_marks_the_gap(taken: int | None, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with AuditLog(path, on_failure="continue") as log:
        for _ in range(3):
            fail_once(monkeypatch, taken)
            assert log.append("lost") is None
        assert log.append("x") is not None
        assert log.append("x") is not None
    gap = lines(path)[0]
    assert (gap["kind"], gap["facts"]["lost_lines"], gap["facts"]["last_error"]) == ("gap", 3, "ENOSPC")
    assert gap["facts"]["since"] < lines(path)[1]["time"]
    assert (verify_log(path).ok, verify_log(path).lines, verify_log(path).gaps) == (True, 3, 1)


def test_torn_bytes_that_cannot_be_taken_back_are_named_by_a_gap(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, size: int) -> None:
        raise PermissionError(errno.EPERM, "append only")

    with AuditLog(path, on_failure="continue") as log:
        log.append("x")
        monkeypatch.setattr(os, "ftruncate", refuse)
        fail_once(monkeypatch, 50)
        assert log.append("lost") is None
        log.append("x")
    assert (verify_log(path).ok, verify_log(path).gaps, verify_log(path).lines) == (True, 2, 4)


@pytest.mark.requires_ability("userns")
def test_a_full_disk_loses_lines_openly_and_nothing_else(tmp_path: Path) -> None:
    """A real file system of 16 KiB in a namespace of its own."""
    program = """
        import os, sys
        from fable_exec.audit import AuditLog, verify_log
        from fable_exec.errors import AuditUnavailable
        from pathlib import Path
        Path("ballast").write_bytes(bytes(8192))
        log = AuditLog("audit.jsonl", on_failure=sys.argv[1])
        written = lost = 0
        while lost < 3:
            try:
                done = log.append("x", text="y" * 500)
            except AuditUnavailable as error:
                assert sys.argv[1] == "refuse", error
                done = None
            written, lost = written + bool(done), lost + (not done)
        assert verify_log("audit.jsonl").lines == written > 3, "the log stays whole"
        os.unlink("ballast")
        log.append("after")
        report = verify_log("audit.jsonl")
        print(report.ok, report.gaps, report.lines == written + 2)
    """
    for mode in ("refuse", "continue"):
        answer = disks.on_tmpfs(tmp_path, "size=16k", program, mode)
        assert (answer.stdout, answer.stderr) == ("True 1 True\n", "")

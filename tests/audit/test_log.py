"""The writing end: who may share a file, what resumes, what happens when a line cannot be written."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
import timeit
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from fable_exec.audit import AuditHead, AuditLog, verify_log
from fable_exec.errors import AuditUnavailable


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_new_log_is_private_and_starts_a_chain(path: Path) -> None:
    with AuditLog(path) as log:
        assert log.head == AuditHead()
        first = log.append("started", policy_digest="a" * 64)
        second = log.append("decision", allowed=True)
        assert (first and first.sequence, second and second.sequence) == (1, 2)
        assert log.head == second
    assert path.stat().st_mode & 0o777 == 0o600
    assert [line["sequence"] for line in lines(path)] == [1, 2]
    assert lines(path)[1]["previous"] == lines(path)[0]["digest"]
    assert verify_log(path).ok
    assert log.head == second


def test_the_time_is_utc_whatever_zone_the_clock_has(path: Path) -> None:
    moments = iter([datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), datetime(2026, 1, 2, 3, 0, tzinfo=timezone(timedelta(hours=2)))])
    with AuditLog(path, clock=lambda: next(moments)) as log:
        log.append("x")
        log.append("x")
    assert [line["time"] for line in lines(path)] == ["2026-01-02T03:04:05.000000Z", "2026-01-02T01:00:00.000000Z"]


def test_facts_may_have_any_name(path: Path) -> None:
    with AuditLog(path) as log:
        log.append("x", kind="k", self="s", when="w", sequence=9)
    assert lines(path)[0]["facts"] == {"kind": "k", "self": "s", "when": "w", "sequence": 9}


def test_an_existing_chain_goes_on(path: Path) -> None:
    for _ in range(3):
        with AuditLog(path) as log:
            log.append("x")
    assert verify_log(path).lines == 3


def test_a_file_that_others_could_have_prepared_is_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "target").touch(mode=0o600)
    (tmp_path / "open").touch()
    (tmp_path / "open").chmod(0o640)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "fifo", 0o600)
    (tmp_path / "directory").mkdir()
    os.link(tmp_path / "target", tmp_path / "hard")
    for name in ("open", "link", "fifo", "directory", "hard", "gone/log", "n\0l"):
        with pytest.raises(AuditUnavailable) as caught:
            AuditLog(tmp_path / name, on_failure="continue")
        assert isinstance(caught.value, OSError)
        assert caught.value.errno
    assert (tmp_path / "target").read_bytes() == b""


@pytest.mark.requires_ability("root")
def test_a_file_of_another_user_is_refused(path: Path) -> None:
    path.touch(mode=0o600)
    os.chown(path, 12345, 12345)
    with pytest.raises(AuditUnavailable, match="another user"):
        AuditLog(path)


@pytest.mark.parametrize("content", [b"notes\n", b"notes", b'{"a":1}\n', b"\n", b"x" * 200_000, b'{"sequence":2,'])
def test_a_file_that_is_no_audit_log_is_left_alone(content: bytes, path: Path) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
    with pytest.raises(AuditUnavailable, match="does not end like an audit log"):
        AuditLog(path)
    assert path.read_bytes() == content


def written(path: Path, count: int = 3) -> bytes:
    with AuditLog(path) as log:
        for number in range(count):
            log.append("x", number=number)
    return path.read_bytes()


def test_a_torn_last_line_becomes_a_gap_that_names_it_wherever_it_was_torn(path: Path, tmp_path: Path) -> None:
    whole = written(path)
    last = len(b"".join(whole.splitlines(keepends=True)[:2]))
    for cut in range(last + 1, len(whole) - 1):
        torn = tmp_path / f"torn-{cut}"
        torn.touch(mode=0o600)
        torn.write_bytes(whole[:cut])
        assert not verify_log(torn).ok
        with AuditLog(torn) as log:
            log.append("after")
        report = verify_log(torn)
        assert (report.ok, report.lines, report.gaps) == (True, 4, 1)
        assert torn.read_bytes().startswith(whole[:cut])
        torn.unlink()


def test_a_first_line_that_was_torn_becomes_a_gap(path: Path) -> None:
    first = written(path, 1)
    for cut in range(1, len(first) - 1):
        path.write_bytes(first[:cut])
        with AuditLog(path) as log:
            log.append("after")
        assert (verify_log(path).ok, verify_log(path).lines, verify_log(path).gaps) == (True, 2, 1)


def test_zeros_after_a_power_cut_become_a_gap(path: Path) -> None:
    whole = written(path)
    path.write_bytes(whole + bytes(4096))
    with AuditLog(path) as log:
        log.append("after")
    assert (verify_log(path).ok, verify_log(path).gaps) == (True, 1)


def test_a_last_line_without_its_newline_is_whole_and_no_gap(path: Path) -> None:
    path.write_bytes(written(path)[:-1])
    assert not verify_log(path).ok
    with AuditLog(path) as log:
        log.append("after")
    assert (verify_log(path).ok, verify_log(path).lines, verify_log(path).gaps) == (True, 4, 0)


def test_a_gap_that_was_torn_itself_is_named_by_the_next(path: Path) -> None:
    whole = written(path)
    path.write_bytes(whole + b'{"sequence":4,"ti' + b'\n{"sequence":4,"time":"2026')
    with AuditLog(path) as log:
        log.append("after")
    assert (verify_log(path).ok, verify_log(path).lines, verify_log(path).gaps) == (True, 5, 1)


def test_a_log_cut_while_it_is_open_shows_the_break(path: Path) -> None:
    with AuditLog(path) as log:
        for _ in range(3):
            log.append("x")
        os.truncate(path, path.stat().st_size - 10)
        log.append("x")
    report = verify_log(path)
    assert (report.ok, report.lines) == (False, 2)
    assert lines_that_parse(path)[-1]["sequence"] == 4


def lines_that_parse(path: Path) -> list[dict[str, Any]]:
    found = []
    for line in path.read_bytes().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def test_a_log_emptied_while_it_is_open_shows_the_break(path: Path) -> None:
    with AuditLog(path) as log:
        log.append("x")
        os.truncate(path, 0)
        log.append("x")
    assert verify_log(path).first_bad == 1


def test_a_deleted_log_takes_no_more_lines(path: Path) -> None:
    with AuditLog(path) as log:
        log.append("x")
        path.unlink()
        with pytest.raises(AuditUnavailable, match="deleted"):
            log.append("x")


def test_threads_share_one_log(path: Path) -> None:
    with AuditLog(path) as log:
        start = threading.Barrier(8)

        def write(number: int) -> None:
            start.wait()
            for turn in range(100):
                log.append("x", thread=number, turn=turn)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    report = verify_log(path)
    assert (report.ok, report.lines) == (True, 800)
    for number in range(8):
        assert [line["facts"]["turn"] for line in lines(path) if line["facts"]["thread"] == number] == list(range(100))


def write_lines(path: str, count: int) -> None:
    with AuditLog(path) as log:
        for _ in range(count):
            log.append("x", pid=os.getpid())


def test_processes_share_one_file(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=write_lines, args=(str(path), 150)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    report = verify_log(path)
    assert (report.ok, report.lines, report.gaps) == (True, 600, 0)
    assert len({line["facts"]["pid"] for line in lines(path)}) == 4


def test_two_objects_in_one_process_share_one_file(path: Path) -> None:
    with AuditLog(path) as one, AuditLog(path) as other:
        for _ in range(5):
            one.append("x")
            other.append("x")
            other.append("x")
    assert (verify_log(path).ok, verify_log(path).lines) == (True, 15)


def in_own_interpreter(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-W", "error", "-c", textwrap.dedent(program), *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60)


def test_a_forked_child_and_its_parent_write_one_chain(path: Path) -> None:
    answer = in_own_interpreter(
        """
        import os, sys
        from fable_exec.audit import AuditLog
        log = AuditLog(sys.argv[1])
        log.append("before")
        children = []
        for _ in range(3):
            child = os.fork()
            if not child:
                for _ in range(100):
                    log.append("child")
                log.close()
                os._exit(0)
            children.append(child)
        for _ in range(100):
            log.append("parent")
        print([os.waitpid(child, 0)[1] for child in children], len(os.listdir("/dev/fd")) < 8)
        """,
        path,
    )
    assert (answer.stdout, answer.stderr) == ("[0, 0, 0] True\n", "")
    assert (verify_log(path).ok, verify_log(path).lines) == (True, 401)


def test_a_child_forked_while_a_thread_holds_the_lock_is_not_stuck(path: Path) -> None:
    answer = in_own_interpreter(
        """
        import os, sys
        from fable_exec.audit import AuditLog
        log = AuditLog(sys.argv[1])
        with log._writer().lock:
            child = os.fork()
            if not child:
                log.append("child")
                log.close()
                os._exit(0)
            print(os.waitpid(child, 0)[1])
        """,
        path,
    )
    assert (answer.stdout, answer.stderr) == ("0\n", "")
    assert verify_log(path).lines == 1


def test_a_child_of_a_log_whose_path_was_taken_over_refuses(path: Path) -> None:
    answer = in_own_interpreter(
        """
        import os, sys
        from fable_exec.audit import AuditLog
        from fable_exec.errors import AuditUnavailable
        log = AuditLog(sys.argv[1])
        os.rename(sys.argv[1], sys.argv[1] + ".old")
        child = os.fork()
        if not child:
            try:
                log.append("child")
            except AuditUnavailable:
                os._exit(7)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
        path,
    )
    assert (answer.stdout, answer.stderr) == ("7\n", "")


@pytest.mark.skipif(sys.platform != "linux", reason="a descriptor is opened anew through /proc")
def test_a_log_on_a_descriptor_leaves_it_open(path: Path) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with AuditLog(fd) as log:
            log.append("x")
        with AuditLog(fd) as log:
            log.append("x")
        os.fstat(fd)
    finally:
        os.close(fd)
    assert verify_log(path).lines == 2


def test_nothing_is_inherited_by_programs_and_nothing_stays_open(path: Path) -> None:
    before = set(os.listdir("/proc/self/fd")) if sys.platform == "linux" else set()
    log = AuditLog(path)
    assert not os.get_inheritable(log._writer().fd)
    log.close()
    log.close()
    assert sys.platform != "linux" or set(os.listdir("/proc/self/fd")) == before
    with pytest.raises(AuditUnavailable, match="closed"):
        log.append("x")
    with pytest.raises(AuditUnavailable, match="closed"):
        log.sync()


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
        mounted = f"mount -t tmpfs -o size=16k,mode=700 none {tmp_path} && cd {tmp_path}"
        script = f'{mounted} && head -c 8192 /dev/zero >ballast && exec "$@"'
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        argv = ["unshare", *user, "--mount", "sh", "-c", script, "sh", sys.executable, "-c", textwrap.dedent(program), mode]
        root = str(Path(__file__).resolve().parents[2])
        answer = subprocess.run(argv, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": root})
        assert (answer.stdout, answer.stderr) == ("True 1 True\n", "")


def test_a_writer_that_holds_the_lock_too_long_is_not_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    monkeypatch.setattr("fable_exec.audit.writer._LOCK_SECONDS", 0.02)
    with AuditLog(path) as log, path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(AuditUnavailable, match="locked"):
            log.append("x")
        fcntl.flock(other, fcntl.LOCK_UN)
        log.append("x")
    assert [line["kind"] for line in lines(path)] == ["gap", "x"]


def test_closing_while_threads_append_writes_to_no_other_file(path: Path, tmp_path: Path) -> None:
    log = AuditLog(path)
    started = threading.Event()

    def write() -> None:
        try:
            while True:
                log.append("x")
                started.set()
        except AuditUnavailable:
            pass

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    started.wait()
    log.close()
    with (tmp_path / "other").open("wb"):  # takes the number that the log had
        for thread in threads:
            thread.join()
    assert (tmp_path / "other").read_bytes() == b""
    assert verify_log(path).ok


def test_an_append_is_cheap(path: Path) -> None:
    """Budget 50 us; the bound here is ten times that, since the machine may be busy."""
    with AuditLog(path) as log:
        facts = {"action": "execute_command", "command": ["git", "status", "--short"], "allowed": True, "policy_digest": "a" * 64}
        best = min(timeit.repeat(lambda: log.append("decision", **facts), number=200, repeat=5)) / 200
    assert best < 500e-6

"""Threads, processes and forked children on one file, each line whole and in the chain."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from fable_exec.audit import AuditLog, verify_log
from fable_exec.errors import AuditUnavailable
from tests.audit.logs import lines


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

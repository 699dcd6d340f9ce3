"""`run_with_deadline`: typed results, and an embedding process that stays as it was."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fable_exec.deadline import DeadlineEnd, DeadlineResult, run_with_deadline, running
from fable_exec.errors import InternalError, LaunchFailed
from fable_exec.testing import leaks
from tests.cli.typed import is_running
from tests.hosts import PROJECT, unique_sleep
from tests.waiting import until

pytestmark = pytest.mark.requires_ability("linux")

_GET_SUBREAPER = 37


def output_of(tmp_path: Path, *argv: str, hard: float = 20, **options: Any) -> tuple[DeadlineResult, bytes, bytes]:
    """What came of it, and what it wrote."""
    with open(tmp_path / "out", "w+b") as out, open(tmp_path / "err", "w+b") as err:
        result = run_with_deadline(argv, hard, stdout=out.fileno(), stderr=err.fileno(), **options)
        return result, (tmp_path / "out").read_bytes(), (tmp_path / "err").read_bytes()


def is_subreaper() -> bool:
    answer = ctypes.c_int()
    assert ctypes.CDLL(None).prctl(_GET_SUBREAPER, ctypes.byref(answer), 0, 0, 0) == 0
    return bool(answer.value)


def test_a_result_tells_how_it_ended_and_the_host_is_unchanged(tmp_path: Path) -> None:
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    with leaks.nothing_left():
        ended, out, err = output_of(tmp_path, "sh", "-c", "echo out; echo err >&2; exit 3")
        timed_out, _, told = output_of(tmp_path, "sh", "-c", "trap '' TERM; sleep 60; sleep 60", hard=0.2, grace=0.1)
        silent, _, _ = output_of(tmp_path, "sleep", "60", idle=0.2)
        left, _, _ = output_of(tmp_path, "sh", "-c", "sleep 60 & exit 0")
    assert (ended.ended_by, ended.returncode, ended.quiescent, ended.exit_status) == (DeadlineEnd.EXITED, 3, True, 3)
    assert (out, err) == (b"out\n", b"err\n")
    assert (timed_out.ended_by, timed_out.returncode, timed_out.kill_sent) == (DeadlineEnd.HARD_TIMEOUT, -signal.SIGKILL, True)
    assert (timed_out.exit_status, told) == (124, b"")
    assert (silent.ended_by, silent.returncode, silent.kill_sent) == (DeadlineEnd.IDLE_TIMEOUT, -signal.SIGTERM, False)
    assert ([each.name for each in left.left_behind], left.returncode, left.exit_status) == (["sleep"], 0, 125)
    assert {number: signal.getsignal(number) for number in signal.valid_signals()} == before
    assert not is_subreaper()


def test_what_cannot_be_started_is_said_with_the_stage(tmp_path: Path) -> None:
    for argv, options, stage, number in (
        (["no-such-program"], {}, "exec", errno.ENOENT),
        (["/etc/passwd"], {}, "exec", errno.EACCES),
        (["true"], {"env": {"PATH": str(tmp_path)}}, "exec", errno.ENOENT),
        (["true"], {"cwd": tmp_path / "nowhere"}, "cwd", errno.ENOENT),
    ):
        with pytest.raises(LaunchFailed) as caught, leaks.nothing_left():
            run_with_deadline(argv, 5, **options)
        assert (caught.value.stage, caught.value.errno) == (stage, number)


def test_directory_environment_and_streams_are_the_given_ones(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"from the file\n")
    with open(tmp_path / "in", "rb") as given:
        environment = {"PATH": "/usr/bin:/bin", "ONLY": "ä\udcff"}
        script = "pwd; cat; echo $ONLY; echo $HOME; ls /proc/self/fd; exec grep SigBlk /proc/self/status"
        _, out, err = output_of(tmp_path, "sh", "-c", script, cwd=tmp_path, env=environment, stdin=given.fileno())
    lines = out.decode("utf-8", "surrogateescape").splitlines()
    assert lines[:4] == [str(tmp_path), "from the file", "ä\udcff", ""]
    assert lines[4:] == ["0", "1", "2", "3", "SigBlk:\t" + "0" * 16]  # 3 is the list's own
    assert err == b""


def test_many_at_once_do_not_meet(tmp_path: Path) -> None:
    def one(number: int) -> tuple[int, bytes]:
        directory = tmp_path / str(number)
        directory.mkdir()
        result, out, _ = output_of(directory, "sh", "-c", f"head -c {number}0000 /dev/zero; exit {number}")
        return result.exit_status, out

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(one, range(6))) == [(number, b"\0" * 10_000 * number) for number in range(6)]


HOST = """
import signal, sys
from fable_exec.deadline import run_with_deadline
{before}
try:
    print(run_with_deadline(["sh", "-c", sys.argv[1]], 30, grace=0.2).exit_status)
except KeyboardInterrupt:
    print("interrupted")
"""


def host(script: str, before: str = "", **options: Any) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    argv = [sys.executable, "-c", HOST.format(before=before), script]
    return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, **options)


DEAF = "trap '' TERM INT HUP; sleep {0} & echo ready; sleep {0}; sleep {0}"


@pytest.mark.parametrize("number, answer", [(signal.SIGINT, b"interrupted\n"), (signal.SIGKILL, b"")])
def test_the_end_of_the_wait_or_of_the_host_is_the_end_of_the_tree(number: signal.Signals, answer: bytes) -> None:
    seconds = unique_sleep()
    with host(DEAF.format(seconds)) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        process.wait(20)
        if number == signal.SIGINT:
            assert not is_running(seconds)
        assert process.stdout.read() == answer
    assert until(lambda: not is_running(seconds))


def test_a_host_that_ignores_and_blocks_and_has_no_streams_gets_the_same() -> None:
    before = """
import os
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
os.close(0); os.close(2)
"""
    with host("cat; echo out; echo err >&2; kill -TERM $$", before) as process:
        assert process.stdout is not None and process.stdout.read() == b"out\n143\n"


def test_a_worker_that_is_killed_or_silent_is_an_error_and_takes_the_command_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_PATIENCE_SECONDS", 0.2)
    for number, hard in ((signal.SIGKILL, 30.0), (signal.SIGSTOP, 2.0)):
        seconds, before = unique_sleep(), leaks.children()

        def strike(seconds: str = seconds, before: set[int] = before, number: int = number) -> None:
            assert until(lambda: is_running(seconds))
            (worker,) = leaks.children() - before
            os.kill(worker, number)

        attacker = threading.Thread(target=strike)
        attacker.start()
        with pytest.raises(InternalError):
            run_with_deadline(["sleep", seconds], hard, grace=0.1)
        attacker.join()
        assert until(lambda seconds=seconds: not is_running(seconds))
    assert leaks.children() == before

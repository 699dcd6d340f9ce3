"""Signals and closed pipes during `run`: the whole tree ends, and the exit status says why."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.typed import PROGRAM, environment, is_running, started, the_object
from tests.hosts import unique_sleep
from tests.waiting import until

TREE = "trap '' INT TERM HUP; setsid sleep {0} & (sleep {0} &) & echo ready; sleep {0}; sleep {0}"


def running(workspace: Path, seconds: str, *flags: str, script: str = TREE, **options: object) -> subprocess.Popen[bytes]:
    """A run whose tree has said that it is there."""
    argv = ["run", "--workspace", str(workspace), "--unlocked", *flags, "--", "sh", "-c", script.format(seconds)]
    process = started(*argv, **options)
    if {"--json", "--no-stream"} & set(flags):  # which say nothing before the end
        assert until(lambda: is_running(seconds))
    else:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_tree_and_is_the_exit_status(number: signal.Signals, status: int, workspace: Path) -> None:
    seconds = unique_sleep()
    with running(workspace, seconds) as process:
        process.send_signal(number)
        _, complaints = process.communicate(timeout=20)
    assert process.returncode == status
    assert not is_running(seconds)
    assert complaints.startswith(b"fable-exec: interrupted by " + number.name.encode()) and b"Traceback" not in complaints


@pytest.mark.requires_ability("confinement")
def test_a_signal_that_comes_many_times_does_the_same(workspace: Path) -> None:
    seconds = unique_sleep()
    with running(workspace, seconds) as process:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
            process.send_signal(number)
        _, complaints = process.communicate(timeout=20)
    assert process.returncode in (130, 143)
    assert not is_running(seconds)
    assert b"Traceback" not in complaints


@pytest.mark.requires_ability("confinement")
def test_an_interrupted_run_in_json_still_prints_its_object(workspace: Path) -> None:
    seconds = unique_sleep()
    with running(workspace, seconds, "--json") as process:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=20)
    answer = the_object(subprocess.CompletedProcess([], 0, output, b""))
    assert (process.returncode, answer["result"]["outcome"]) == (143, "cancelled")
    assert not is_running(seconds)


def test_a_signal_before_the_command_runs_starts_nothing_that_stays(workspace: Path) -> None:
    seconds = unique_sleep()
    for wait in (0.0, 0.05, 0.15):
        argv = ["run", "--workspace", str(workspace), "--", "sleep", seconds]
        with started(*argv) as process:
            try:
                process.wait(timeout=wait)
            except subprocess.TimeoutExpired:
                pass
            process.send_signal(signal.SIGTERM)
            _, complaints = process.communicate(timeout=20)
        # Python itself ends by the signal when it came before our handler was there
        assert process.returncode in (143, -signal.SIGTERM)
        assert (b"interrupted by SIGTERM: " in complaints) == (process.returncode == 143)
        assert not is_running(seconds)


@pytest.mark.requires_ability("confinement")
def test_a_signal_that_was_ignored_when_we_started_stays_ignored(workspace: Path) -> None:
    line = 'trap "" HUP; exec "$@"'
    argv = [*PROGRAM, "run", "--workspace", str(workspace), "--stdin", "--", "cat"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(["sh", "-c", line, "sh", *argv], env=environment(), **pipes) as process:  # type: ignore[call-overload]  # as in the stubs
        process.stdin.write(b"one\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"one\n"
        process.send_signal(signal.SIGHUP)
        output, _ = process.communicate(b"two\n", timeout=20)
    assert (process.returncode, output) == (0, b"two\n")


@pytest.mark.requires_ability("confinement")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # a worker of pytest-xdist has a thread
def test_control_c_at_a_terminal_ends_the_tree(workspace: Path) -> None:
    seconds = unique_sleep()
    script = f"trap '' INT; echo ready; sleep {seconds}; sleep {seconds}"
    argv = [*PROGRAM, "run", "--workspace", str(workspace), "--unlocked", "--stdin", "--", "sh", "-c", script]
    child, terminal = pty.fork()
    if child == 0:
        try:
            os.execve(argv[0], argv, environment(TERM="xterm"))
        finally:
            os._exit(99)
    try:
        assert b"ready" in read_until(terminal, b"ready")
        os.write(terminal, b"\x03")
        shown = read_until(terminal, b"no such text")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 130, shown
    finally:
        os.close(terminal)
    assert not is_running(seconds)


def read_until(terminal: int, text: bytes) -> bytes:
    """What the terminal shows until `text`, or until its last program has ended."""
    shown = b""
    while text not in shown:
        try:
            data = os.read(terminal, 4096)
        except OSError:
            break
        if not data:
            break
        shown += data
    return shown


ENDLESS = {
    "a command that writes on": "echo ready; trap '' PIPE; while :; do echo more; done; sleep {0}",
    "a command that is silent": "echo ready; sleep {0}",
    "a command that ignores everything": "trap '' INT TERM HUP PIPE; echo ready; sleep {0}; sleep {0}",
}


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("script", ENDLESS.values(), ids=ENDLESS)
@pytest.mark.parametrize("flag", ["--stream", "--no-stream"])
def test_a_closed_pipe_ends_the_tree_quietly(script: str, flag: str, workspace: Path) -> None:
    seconds = unique_sleep()
    with running(workspace, seconds, flag, script="setsid sleep {0} & " + script) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        complaints = process.stderr.read()
        assert process.wait(timeout=20) == 141
    assert complaints == b""
    assert not is_running(seconds)


@pytest.mark.requires_ability("confinement")
def test_a_signal_gets_through_to_a_run_whose_reader_has_stopped_reading(workspace: Path) -> None:
    seconds = unique_sleep()
    script = "echo ready; setsid sleep {0} & while :; do echo 0123456789012345678901234567890123456789; done"
    with running(workspace, seconds, script=script) as process:
        assert until(lambda: is_running(seconds))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 143
        process.communicate()
    assert not is_running(seconds)


@pytest.mark.requires_ability("confinement")
def test_killing_the_run_itself_ends_its_tree(workspace: Path) -> None:
    seconds = unique_sleep()
    with running(workspace, seconds) as process:
        process.kill()
        process.communicate(timeout=20)
    assert until(lambda: not is_running(seconds))


def test_a_pipe_that_closes_under_json_is_noticed_too(workspace: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    argv = [*PROGRAM, "probe", "--workspace", str(workspace), "--json"]
    finished = subprocess.run(argv, env=environment(), stdout=writing, stderr=subprocess.PIPE, timeout=30)
    os.close(writing)
    assert (finished.returncode, finished.stderr) == (141, b"")

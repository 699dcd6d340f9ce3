"""What passes through `fable-exec deadline`: every byte, in order, whoever reads, and no reader can hold the deadline up."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess
import threading
import time

import pytest

from tests.cli.typed import PROGRAM, environment, is_running
from tests.deadline.commands import deadline, shell, started, timeout_of
from tests.hosts import unique_sleep
from tests.waiting import until

pytestmark = pytest.mark.requires_ability("linux")

FLOOD = """
import os, random
data = random.Random(7).randbytes(10_000_000)
for n in range(0, len(data), 99_991):
    os.write(1, data[n:n + 99_991])
    os.write(2, data[n:n + 1_009])
"""


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_ten_megabytes_pass_exactly_and_both_streams_keep_their_order() -> None:
    argv = ["python3", "-I", "-S", "-c", FLOOD]
    alone = subprocess.run(argv, capture_output=True)
    passed = deadline("20", "5", "5", "--", *argv)
    assert (passed.returncode, len(passed.stdout)) == (0, 10_000_000)
    assert (digest(passed.stdout), digest(passed.stderr)) == (digest(alone.stdout), digest(alone.stderr))


def test_standard_input_is_the_command_s() -> None:
    text = b"\0\xff\n" * 100_000
    assert deadline("20", "5", "--", "cat", stdin=text).stdout == text


@pytest.mark.parametrize("closed, expected", [("<&-", b"out\n"), (">&-", b""), ("2>&-", b"out\n"), ("<&- >&- 2>&-", b"")])
def test_a_stream_that_is_closed_is_an_empty_one(closed: str, expected: bytes) -> None:
    argv = ["sh", "-c", f'exec "$@" {closed}', "sh", *PROGRAM, "deadline", *shell("cat; echo out; echo err >&2; exit 7")]
    done = subprocess.run(argv, env=environment(), input=b"", capture_output=True, timeout=30)
    assert (done.returncode, done.stdout) == (7, expected)
    assert done.stderr == (b"" if "2>&-" in closed else b"err\n")


WRITERS = {
    "silent": "echo ready; sleep {0}",
    "writing on": "echo ready; sleep {0} & while :; do echo more; done",
    "ignoring everything": "trap '' TERM PIPE; echo ready; sleep {0}; sleep {0}",
}


@pytest.mark.parametrize("script", WRITERS.values(), ids=WRITERS)
def test_a_reader_that_goes_away_ends_the_tree_quietly(script: str) -> None:
    seconds = unique_sleep()
    with started(*shell(script.format(seconds), "20", "0.2")) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert (process.wait(20), process.stderr.read()) == (141, b"")
    assert not is_running(seconds)


def test_a_closed_standard_error_is_a_closed_pipe_once_it_is_written_to() -> None:
    with started(*shell("echo ready; read line; echo err >&2; sleep 60"), stdin=subprocess.PIPE) as process:
        assert process.stderr is not None and process.stdin is not None
        process.stderr.close()
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.wait(20) == 141


def test_a_full_disk_is_said_and_is_125() -> None:
    with open("/dev/full", "wb") as full:
        argv = [*PROGRAM, "deadline", *shell("echo out; sleep 60")]
        done = subprocess.run(argv, env=environment(), stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, timeout=30)
    assert done.returncode == 125
    assert b"could not be passed on: No space left on device" in done.stderr


def test_a_reader_that_does_not_read_holds_up_no_deadline_and_is_no_silence_of_the_command() -> None:
    with started(*shell("echo ready; exec yes", "3.0", "0.2", "1.0")) as process:
        assert process.wait(20) == 124
        assert process.stdout is not None and process.stderr is not None
        assert timeout_of(process.stderr.read())["reason"] == "hard_timeout"
        assert process.stdout.read().replace(b"y\n", b"") in (b"", b"y")


def test_not_even_when_both_streams_and_a_stranger_share_the_pipe() -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    argv = [*PROGRAM, "deadline", *shell("yes & exec yes >&2", "0.6", "0.2")]
    stranger = threading.Thread(target=lambda: os.write(writing, b"x" * 100_000), daemon=True)
    stranger.start()
    process = subprocess.Popen(argv, env=environment(), stdin=subprocess.DEVNULL, stdout=writing, stderr=writing)
    try:
        assert process.wait(20) == 124
    finally:
        process.kill()
        os.set_blocking(reading, False)  # it may have written its last just now
        while stranger.is_alive():
            with contextlib.suppress(BlockingIOError):
                os.read(reading, 1 << 16)
            stranger.join(0.01)
        os.close(writing)
        os.close(reading)


def test_what_a_late_reader_takes_before_the_deadline_is_all_there() -> None:
    with started(*shell("echo ready; head -c 300000 /dev/zero")) as process:
        time.sleep(0.3)  # longer than it takes to write what the pipes hold
        assert process.stdout is not None
        assert len(process.stdout.read()) == 300_000
        assert process.wait(20) == 0


def test_output_that_nobody_takes_until_the_deadline_is_a_timeout() -> None:
    with started(*shell("echo ready; head -c 300000 /dev/zero", "0.4", "0.2")) as process:
        assert process.wait(20) == 124


def test_a_reader_that_has_all_it_wants_just_as_the_command_ends_is_no_failure() -> None:
    with started(*shell("echo ready; sleep 0.1; exit 3")) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(20) == 3


def test_a_pipe_that_somebody_made_non_blocking_loses_nothing() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    argv = [*PROGRAM, "deadline", *shell("head -c 1000000 /dev/zero")]
    with subprocess.Popen(argv, env=environment(), stdin=subprocess.DEVNULL, stdout=writing) as process:
        os.close(writing)
        with os.fdopen(reading, "rb") as output:
            assert output.read() == b"\0" * 1_000_000
        assert process.wait(20) == 0


def test_a_stranger_that_got_the_pipe_is_not_waited_for() -> None:
    """A descriptor can be handed to a process that the command did not start, as a client hands its own to a server."""
    marker = unique_sleep()
    with started(*shell(f"echo ready; read pid; readlink /proc/self/fd/1; : {marker}"), stdin=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        command = next(pid for pid in _children(process.pid))
        held = os.open(f"/proc/{command}/fd/1", os.O_WRONLY)
        try:
            process.stdin.write(b"\n")
            process.stdin.flush()
            assert process.wait(20) == 0
            assert process.stdout.read().startswith(b"pipe:[")
        finally:
            os.close(held)
    assert until(lambda: not is_running(marker))


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]

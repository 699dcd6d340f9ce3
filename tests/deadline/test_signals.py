"""Signals to `fable-exec deadline`, and what no signal ends: the tree is gone or it is said, and always in time."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time

import pytest

from fable_exec.testing.processes import alive_with
from tests.cli.typed import PROGRAM, environment, is_running
from tests.cli.typed import started as started_silently
from tests.deadline.commands import deadline, shell, started
from tests.hosts import unique_sleep
from tests.waiting import until

pytestmark = pytest.mark.requires_ability("linux")

DEAF = "trap '' INT TERM HUP; sleep {0} & echo ready; sleep {0}; sleep {0}"
NAMED = (1 << 31) - 1
"""Of a mask: whoever started us with a C library's posix_spawn may have left its internal signals, 32 and 33, ignored."""
NUMBERS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.mark.parametrize("number, status", NUMBERS)
def test_a_signal_ends_a_tree_that_ignores_it_and_is_the_status(number: signal.Signals, status: int) -> None:
    seconds = unique_sleep()
    with started(*shell(DEAF.format(seconds), "20", "0.2")) as process:
        process.send_signal(number)
        process.send_signal(number)
        _, told = process.communicate(timeout=20)
    assert process.returncode == status
    assert told.startswith(b"fable-exec: interrupted by " + number.name.encode()) and told.count(b"\n") == 1
    assert not is_running(seconds)


@pytest.mark.parametrize("number, status", NUMBERS)
def test_the_command_gets_that_very_signal(number: signal.Signals, status: int) -> None:
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo got {name}; exit 0' {name}; echo ready; while :; do sleep 0.05; done"
    with started(*shell(script)) as process:
        process.send_signal(number)
        output, _ = process.communicate(timeout=20)
    assert (process.returncode, output) == (status, f"got {name}\n".encode())


def test_a_signal_that_was_ignored_when_we_were_started_stays_ignored_by_both() -> None:
    script = "kill -HUP $PPID $$; cat; exec grep SigIgn /proc/self/status"
    argv = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *PROGRAM, "deadline", *shell(script)]
    done = subprocess.run(argv, env=environment(), input=b"still here\n", capture_output=True, timeout=30)
    text, ignored = done.stdout.splitlines()
    assert (done.returncode, text, int(ignored.split()[1], 16) & NAMED) == (0, b"still here", 1 << signal.SIGHUP - 1)


DULL = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_what_our_parent_blocked_or_ignored_keeps_no_end_from_coming() -> None:
    def run(*words: str) -> subprocess.CompletedProcess[bytes]:
        argv = ["python3", "-I", "-S", "-c", DULL, *PROGRAM, "deadline", *words]
        return subprocess.run(argv, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=30)

    assert run(*shell("sleep 60", "0.4")).returncode == 124
    assert run(*shell("exit 5")).returncode == 5
    status = dict(row.split(b":", 1) for row in run(*shell("exec cat /proc/self/status")).stdout.splitlines())
    assert (int(status[b"SigBlk"], 16), int(status[b"SigIgn"], 16) & NAMED) == (0, 0)


def test_a_signal_before_the_command_runs_starts_nothing_that_stays() -> None:
    seconds = unique_sleep()
    for wait in (0.0, 0.04, 0.08, 0.12):
        with started_silently("deadline", "20", "5", "--", "sleep", seconds) as process:
            time.sleep(wait)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)
        assert process.returncode in (143, -signal.SIGTERM)  # by the signal itself while Python was starting
        assert not is_running(seconds)


def test_the_command_is_killed_with_us() -> None:
    seconds = unique_sleep()
    with started(*shell(f"echo ready; exec sleep {seconds}")) as process:
        process.kill()
        process.communicate(timeout=20)
    assert until(lambda: not is_running(seconds))


def test_a_signal_from_within_the_tree_ends_it_like_any_other() -> None:
    assert deadline(*shell("kill -TERM $PPID; sleep 60")).returncode == 143


def test_a_stopped_command_is_woken_to_hear_that_it_ends() -> None:
    finished = deadline(*shell("trap 'echo bye; exit' TERM; kill -STOP $$; sleep 60", "1.0"))
    assert (finished.returncode, finished.stdout) == (124, b"bye\n")


_SEIZE, _WALL = 0x4206, 0x40000000


def test_a_member_that_is_traced_from_outside_is_named_after_a_bounded_time() -> None:
    seconds = unique_sleep()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    with started(*shell(f"sleep {seconds} & echo ready; wait", "2.0", "0.2")) as process:
        traced = _pid_of(seconds)
        assert libc.ptrace(_SEIZE, traced, None, None) == 0, os.strerror(ctypes.get_errno())
        _, told = process.communicate(timeout=60)
        os.waitpid(traced, _WALL)
    assert process.returncode == 125
    assert told.startswith(b"fable-exec: hard timeout\n") and b"not everything could be ended" in told


def _pid_of(marker: str) -> int:
    found: list[int] = until(lambda: alive_with(f"sleep\0{marker}\0"))
    return found[0]

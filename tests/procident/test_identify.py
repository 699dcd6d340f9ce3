"""Looking at real processes: who is alive, who is not, and what is written down."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec import procident
from fable_exec._sys import processes
from fable_exec.errors import IdentityLost
from fable_exec.procident import Comparison, ProcessHandle, TokenKind, compare, identify
from fable_exec.testing.leaks import nothing_left
from tests.waiting import until

pytestmark = pytest.mark.requires_ability("pidfd")

YEAR_SECONDS = 365 * 24 * 3600
SLEEPER = [sys.executable, "-c", "import os, sys; os.read(0, 1); os.execvp('sleep', ['sleep', '300'])"]


@contextmanager
def running(argv: list[str] = SLEEPER) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdin
        process.stdin.close()


def test_a_living_process_is_the_same_whenever_it_is_looked_at() -> None:
    with running() as process:
        first = identify(process.pid)
        assert first.pid == process.pid
        assert first.birth and first.birth.kind is TokenKind.PROC and first.birth.may_authorise
        assert first == identify(process.pid)
        assert compare(first, identify(process.pid)) is Comparison.SAME
        assert compare(first, identify(os.getpid())) is Comparison.OTHER


def test_what_is_written_down_is_what_the_kernel_says() -> None:
    identity = identify(os.getpid())
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    assert identity.birth and identity.birth.moment == stat[19]
    assert identity.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert f"pid:[{identity.pid_namespace}]" == os.readlink("/proc/self/ns/pid")
    assert f"time:[{identity.time_namespace}]" == os.readlink("/proc/self/ns/time")
    descriptor = os.pidfd_open(os.getpid())
    assert identity.unique_id in (os.fstat(descriptor).st_ino, None)
    os.close(descriptor)


def test_a_program_that_replaces_itself_stays_the_same() -> None:
    with running() as process:
        before = identify(process.pid)
        assert process.stdin
        process.stdin.write(b"x")
        process.stdin.flush()
        until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
        assert compare(before, identify(process.pid)) is Comparison.SAME


def test_a_zombie_is_nobody() -> None:
    with running() as process:
        recorded = identify(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        os.kill(process.pid, 0)  # its number is still taken
        for act in (lambda: identify(process.pid), lambda: ProcessHandle.of(process.pid), lambda: ProcessHandle.reopen(recorded)):
            with pytest.raises(IdentityLost) as caught:
                act()
            assert caught.value.gone


def test_who_has_ended_is_nobody() -> None:
    with running() as process:
        recorded = identify(process.pid)
    for act in (lambda: identify(recorded.pid), lambda: ProcessHandle.reopen(recorded)):
        with pytest.raises(ProcessLookupError) as caught:
            act()
        assert isinstance(caught.value, IdentityLost) and caught.value.gone


def test_a_threads_number_is_no_process() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert Path(f"/proc/{thread.native_id}/stat").exists()
        with pytest.raises(IdentityLost):
            identify(thread.native_id or 0)
        with pytest.raises(ProcessLookupError):
            processes.number_in_view(thread.native_id or 0, None)  # also where there are no descriptors
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("pid", [0, -1, -4711])
def test_what_is_no_number_of_a_process_is_an_error_and_nobody_is_asked(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """B7: -1 from a failed call must not come to mean everybody."""
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("a signal was sent"))
    for act in (identify, ProcessHandle.of):
        with pytest.raises(ValueError, match="not the number of a process"):
            act(pid)


def test_only_a_descriptor_of_pidfs_numbers_a_process() -> None:
    """Before Linux 6.9 all descriptors of processes share one inode of the anonymous files, as this one does."""
    shared = os.eventfd(0)
    assert processes.unique_process_id(os.getpid(), shared) is None
    assert processes.unique_process_id(os.getpid(), None) is None
    os.close(shared)


def test_the_clocks_of_this_process_play_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """S2: a year's jump, faked at the seam; the kernel's own clock jumps in test_places.py, in a time namespace."""
    with running() as process:
        before = identify(process.pid)
        with ProcessHandle.reopen(before) as handle:
            for name in ("time", "time_ns", "monotonic", "monotonic_ns"):
                real = getattr(time, name)
                ahead = YEAR_SECONDS * (10**9 if name.endswith("_ns") else 1)
                monkeypatch.setattr(time, name, lambda real=real, ahead=ahead: real() + ahead)
            assert compare(before, identify(process.pid)) is Comparison.SAME
            ProcessHandle.reopen(before).close()
            assert handle.is_alive()
            handle.send_signal(signal.SIGKILL)
            assert handle.wait(30)


def test_looking_leaves_nothing_open() -> None:
    stranger = attrs.evolve(identify(os.getpid()), birth=None, boot_id="")
    with running() as process:
        recorded = identify(process.pid)
        with nothing_left():
            ProcessHandle.of(process.pid).close()
            ProcessHandle.reopen(recorded).close()
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with nothing_left():
            for act in (
                lambda: identify(process.pid),
                lambda: ProcessHandle.of(process.pid),
                lambda: ProcessHandle.reopen(recorded),
                lambda: ProcessHandle.reopen(stranger),
            ):
                with pytest.raises(IdentityLost):
                    act()


@pytest.mark.requires_ability("userns")
def test_a_process_whose_first_thread_has_ended_is_alive(inside: Callable[..., Any]) -> None:
    """/proc says "zombie" of it."""
    assert inside("first_thread_ended") == {
        "alive": True,
        "looked at without descriptors": True,
        "signal": "done",
        "ended": True,
        "dead without descriptors": "gone",
    }


@pytest.mark.requires_ability("userns")
def test_want_of_descriptors_is_an_error_and_no_weaker_identity(inside: Callable[..., Any]) -> None:
    assert inside("descriptors_used_up") == {"identify": "EMFILE", "of": "EMFILE"}


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_want_of_anything_is_not_taken_for_want_of_the_ability(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call fails that opens a process, and no other."""

    def fail(pid: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(processes, "open_process", fail)
    for act in (identify, ProcessHandle.of):
        with pytest.raises(OSError) as caught:
            act(os.getpid())
        assert caught.value.errno == number


def test_the_public_names_are_all_there() -> None:
    assert [name for name in procident.__all__ if not hasattr(procident, name)] == []
    modules = {"guarding", "handle", "identity", "looking", "ps", "tokens", "annotations"}
    assert {name for name in vars(procident) if name.isidentifier() and not name.startswith("_")} - modules == set(
        procident.__all__
    )

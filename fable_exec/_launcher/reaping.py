"""Children that have ended: heard of, and reaped with what they used, without waiting for those that have not."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

from .linuxos import pipe_unblocking

Usage = tuple[float, float, int]
"""User seconds, system seconds, peak resident KiB."""
MOST_HEARD = 4096


def wait_usage(pid: int, options: int) -> tuple[int, int, Usage]:
    """wait4(2) with the three figures that are reported."""
    found, status, usage = os.wait4(pid, options)
    return found, status, (usage.ru_utime, usage.ru_stime, usage.ru_maxrss)


def ended_children() -> Iterator[tuple[int, int, Usage]]:
    """Reap every child that has ended, without waiting: number, wait status and usage of each."""
    while True:
        try:
            pid, status, usage = wait_usage(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        # A child that asked to be traced by its parent also reports its stops here (ptrace(2), PTRACE_TRACEME).
        if not os.WIFSTOPPED(status):
            yield pid, status, usage


def reap_exited(pid: int) -> tuple[int, Usage] | None:
    """Reap our exited child `pid` without blocking: a zombie that somebody traces is not ours until the tracer is gone."""
    found, status, usage = wait_usage(pid, os.WNOHANG)
    # One that asked to be traced by its parent is told of here whenever it stops (ptrace(2), PTRACE_TRACEME).
    return (status, usage) if found and not os.WIFSTOPPED(status) else None


def bell(*numbers: int) -> int:
    """A descriptor on which there is a byte for each of these signals that came, its number; only for a process of our own."""
    reading, writing = pipe_unblocking()
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, _notice)
    return reading


def heard(descriptor: int) -> bytes:
    """What rang the bell: MOST_HEARD numbers at most, and then there may be more, also such as found no room."""
    return os.read(descriptor, MOST_HEARD)


def child_bell() -> int:
    """The same for the death of a child."""
    return bell(signal.SIGCHLD)


def _notice(number: int, frame: object) -> None:
    """Nothing: that the signal is taken note of wakes the loop."""

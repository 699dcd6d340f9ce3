"""Who is alive, wherever it hangs in the tree of processes: found by a word in its command line that nobody else was told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

__all__ = ["alive_with", "end_all_with", "unique_word"]

_DEAD = (b"Z", b"X")
_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD in the flags of proc_pid_stat(5): it has no command line at all."""
_PAUSES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02)


def unique_word() -> str:
    """A word to mark processes with, by an argument that they do not look at. A forked child has its parent's."""
    return f"fable-test-{uuid.uuid4().hex}"


def alive_with(marker: str) -> list[int]:
    """Living processes whose command line holds `marker`, this one left out; a zombie is not alive."""
    return [pid for pid in _living(marker) if pid != os.getpid()]


def end_all_with(marker: str) -> list[int]:
    """Kill those of `alive_with` and return them: for the end of a test, that what it found left does not stay.

    A marker is not proof of identity: only for a word of `unique_word`.
    """
    return [pid for pid in alive_with(marker) if _kill(pid, marker)]


def _kill(pid: int, marker: str) -> bool:
    """Whether it got the signal. On Linux it is held by a descriptor, and cannot become another between look and signal."""
    try:
        if sys.platform != "linux":
            os.kill(pid, signal.SIGKILL)
            return True
        held = os.pidfd_open(pid)
        try:
            if pid not in alive_with(marker):
                return False
            signal.pidfd_send_signal(held, signal.SIGKILL)
        finally:
            os.close(held)
    except ProcessLookupError:
        return False
    return True


def _living(marker: str) -> Iterator[int]:
    return _by_proc(marker.encode()) if os.path.isdir("/proc/self") else _by_ps(marker)


def _by_proc(marker: bytes) -> Iterator[int]:
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if marker in _command_line(f"/proc/{entry}") and _state_and_flags(f"/proc/{entry}")[0] not in _DEAD:
                yield int(entry)
        except OSError:
            continue  # it has ended meanwhile


def _command_line(process: str) -> bytes:
    """What /proc says; a process that executes a program just now has none for a moment (execve(2))."""
    for pause in _PAUSES:
        found = _read(f"{process}/cmdline")
        if found:
            return found
        state, flags = _state_and_flags(process)
        if state in _DEAD or flags & _KERNEL_THREAD:
            return b""
        time.sleep(pause)
    return b""


def _state_and_flags(process: str) -> tuple[bytes, int]:
    fields = _read(f"{process}/stat").rpartition(b")")[2].split()
    return fields[0], int(fields[6])


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _by_ps(marker: str) -> Iterator[int]:
    listed = subprocess.run(
        ["ps", "-axww", "-o", "pid=", "-o", "stat=", "-o", "args="], capture_output=True, text=True, errors="replace", check=True
    )
    for line in listed.stdout.splitlines():
        pid, state, words = (*line.split(None, 2), "", "")[:3]
        if not state.startswith("Z") and marker in words:
            yield int(pid)

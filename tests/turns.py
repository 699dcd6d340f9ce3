"""Several workers run the suite at the same time (pytest-xdist); a test marked `alone` runs while all others wait.

They also read the same files of tests at the same time: one compiles a file, and the others take what it wrote.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Generator
from pathlib import Path

import pytest

MOST_WORKERS = 8
"""On a machine of many processors: more would only disturb each other."""


class Turns:
    """A plugin of each worker: locks on files in `directory`, which the workers of one run share.

    The room is shared by ordinary tests and taken whole by one that must be alone. Everybody enters through the gate, so whoever
    waits for the whole room is not overtaken. The wait lies outside of the test: its timeout does not count it.
    """

    def __init__(self, directory: Path) -> None:
        names = ("gate", "room", "collected")
        self._gate, self._room, self._collected = (os.open(directory / name, os.O_RDWR | os.O_CREAT, 0o600) for name in names)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, object, object]:
        if not isinstance(collector, pytest.Module):
            return (yield)
        byte = zlib.crc32(bytes(collector.path))  # of the file of locks: one for each file of tests
        fcntl.lockf(self._collected, fcntl.LOCK_EX, 1, byte)
        try:
            return (yield)
        finally:
            fcntl.lockf(self._collected, fcntl.LOCK_UN, 1, byte)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        fcntl.flock(self._room, fcntl.LOCK_EX if must_be_alone(item) else fcntl.LOCK_SH)
        fcntl.flock(self._gate, fcntl.LOCK_UN)
        try:
            return (yield)
        finally:
            fcntl.flock(self._room, fcntl.LOCK_UN)


def must_be_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


def how_many() -> int:
    """Workers for `-n auto`: two for each processor and one more, because the greater part of each test's time is waiting."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(2 * processors + 1, MOST_WORKERS)

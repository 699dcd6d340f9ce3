"""What the kernel says of executions and their processes; nothing here asks the library."""

from __future__ import annotations

import fcntl
import os
import select
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fable_exec._launcher import kernel_inotify

__all__ = ["await_end", "await_replaced", "children", "memory", "open_descriptors", "processor_seconds", "watched"]

_LONGEST_SECONDS = 30


def await_end(directory: Path) -> None:
    """Wait until nobody keeps the execution in `directory`: its keeper is gone, and gave the lock of its life back."""
    fd = os.open(directory / "run.lock", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    finally:
        os.close(fd)


@contextmanager
def watched(directory: Path) -> Iterator[int]:
    """An inotify instance that tells when a file in `directory` is replaced."""
    place, instance = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), kernel_inotify.open_instance()
    try:
        kernel_inotify.add_watch(instance, place, kernel_inotify.IN_MOVED_TO)
        yield instance
    finally:
        os.close(instance)
        os.close(place)


def await_replaced(instance: int, name: str) -> float:
    """The moment (time.perf_counter) at which `name` got new content."""
    waiting = select.poll()
    waiting.register(instance, select.POLLIN)
    while waiting.poll(_LONGEST_SECONDS * 1000):
        now = time.perf_counter()
        if any(event.name == name for event in kernel_inotify.read_events(instance)):
            return now
    raise TimeoutError(f"{name} was not replaced")


def children(pid: int) -> list[int]:
    """Who has it as parent now."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def processor_seconds(pid: int) -> float:
    """How long it has run on a processor, to the nanosecond."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def memory(pid: int) -> Mapping[str, int]:
    """smaps_rollup in KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}


def open_descriptors(pid: int | str = "self") -> int:
    """How many it has."""
    return len(os.listdir(f"/proc/{pid}/fd"))

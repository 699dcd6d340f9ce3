"""What a piece of a test left behind: descriptors, threads, children."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def open_descriptors() -> dict[int, str]:
    """Number and target of every descriptor of this process."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the one that listed them
    return found


def children() -> set[int]:
    """Process ids of the children of every thread of this process."""
    found: set[int] = set()
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as file:
            found |= {int(pid) for pid in file.read().split()}
    return found


@contextmanager
def nothing_left() -> Iterator[None]:
    """Fail if the block leaves a descriptor, a thread or a child."""
    gc.collect()
    before = set(open_descriptors()), set(threading.enumerate()), children()
    yield
    gc.collect()
    left = {number: target for number, target in open_descriptors().items() if number not in before[0]}
    threads = [thread.name for thread in threading.enumerate() if thread not in before[1]]
    assert (left, threads, children() - before[2]) == ({}, [], set())

"""What a piece of a test left behind: descriptors, threads, children of this process."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["children", "nothing_left", "open_descriptors"]

_LISTED_IN = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"


def open_descriptors() -> dict[int, str]:
    """Number and target of every descriptor of this process; the target is "" where the system does not tell."""
    found = {}
    for name in os.listdir(_LISTED_IN):
        try:
            os.fstat(int(name))
        except OSError:
            continue  # the one that listed them
        try:
            found[int(name)] = os.readlink(f"{_LISTED_IN}/{name}")
        except OSError:
            found[int(name)] = ""
    return found


def _identities() -> set[tuple[int, int, int]]:
    """Number, device and file of every descriptor: a number that was given back may have been given out again."""
    found = set()
    for number in open_descriptors():
        with contextlib.suppress(OSError):  # closed since, by another thread
            known = os.fstat(number)
            found.add((number, known.st_dev, known.st_ino))
    return found


def children() -> set[int]:
    """Process ids of the children of every thread of this process; where there is no /proc nobody tells, and it is empty."""
    found: set[int] = set()
    if not os.path.isdir("/proc/self/task"):
        return found
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children") as file:
                found |= {int(pid) for pid in file.read().split()}
        except (FileNotFoundError, ProcessLookupError):
            continue  # that thread has just ended
    return found


@contextmanager
def nothing_left() -> Iterator[None]:
    """Fail if the block leaves a descriptor, a thread or a child.

    Raises:
        AssertionError: something was left; it lists what.
    """
    before = _identities(), set(threading.enumerate()), children()
    yield
    if _left(before) != _NOTHING:
        # What an exception's cycle still holds is not left. To collect every time would take most of the suite's time.
        gc.collect()
    assert _left(before) == _NOTHING


_Before = tuple[set[tuple[int, int, int]], set[threading.Thread], set[int]]
_NOTHING: tuple[dict[int, str], list[str], set[int]] = ({}, [], set())


def _left(before: _Before) -> tuple[dict[int, str], list[str], set[int]]:
    descriptors, threads, processes = before
    new = {number for number, *_ in _identities() - descriptors}
    left = {number: target for number, target in open_descriptors().items() if number in new}
    return left, [thread.name for thread in threading.enumerate() if thread not in threads], children() - processes

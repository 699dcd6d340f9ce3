"""The lock of an open file: taken, waited for and given back, and told apart from one that cannot be had."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fable_exec._sys import locks

NOT_OPEN = 2**30


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """Two open file descriptions of one file."""
    opened = [os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT, 0o600) for _ in range(2)]
    yield opened[0], opened[1]
    for fd in opened:
        os.close(fd)


@pytest.mark.parametrize("take", [locks.try_lock, locks.try_lock_if_possible, lambda fd: locks.lock_within(fd, -1)])
def test_one_has_it_until_it_is_given_back(two: tuple[int, int], take: Callable[[int], bool]) -> None:
    one, other = two
    assert take(one) and take(one)
    assert not take(other)
    locks.unlock(one)
    assert take(other) and not take(one)


@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_it_is_waited_for_no_shorter_and_not_for_ever(two: tuple[int, int], seconds: float) -> None:
    one, other = two
    assert locks.try_lock(one)
    began = time.monotonic()
    assert not locks.lock_within(other, seconds)
    assert seconds <= time.monotonic() - began < seconds + 30


def test_what_cannot_be_locked_is_an_error_save_for_those_who_do_without() -> None:
    for act in (locks.try_lock, locks.unlock, lambda fd: locks.lock_within(fd, 1)):
        with pytest.raises(OSError) as caught:
            act(NOT_OPEN)
        assert caught.value.errno == errno.EBADF
    assert locks.try_lock_if_possible(NOT_OPEN)

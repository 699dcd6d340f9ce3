"""The write lock by itself, with a clock that only moves when it is told to."""

from __future__ import annotations

import hashlib
import subprocess
from typing import Any

import pytest

from fable_exec.errors import Denied, InvalidRequest, WritesLocked
from fable_exec.testing import FakeClock
from fable_exec.writelock import FREE_FAILURES, LONGEST_BACK_OFF_SECONDS, Unlocked, WriteLock

DIGEST = hashlib.sha256(b"right").hexdigest()


def failing(lock: WriteLock) -> None:
    with pytest.raises(Denied, match="invalid write authorization"):
        lock.unlock("wrong")


def test_it_starts_locked_and_without_a_digest_it_stays_so() -> None:
    lock = WriteLock(None)
    assert lock.unlocked() is None
    for token in ("right", "", "x" * 1000):
        with pytest.raises(WritesLocked, match=r"workspace writes are locked, and .* no write_token_digest"):
            lock.unlock(token)
    assert lock.unlocked() is None
    with pytest.raises(WritesLocked, match="workspace writes are locked, and the token is empty"):
        WriteLock(DIGEST).unlock("")


def test_without_a_digest_the_refusal_says_how_to_make_one_and_that_one_unlocks() -> None:
    with pytest.raises(WritesLocked) as caught:
        WriteLock(None).unlock("right")
    recipe = str(caught.value).split("`")[1]
    made = subprocess.run(["sh", "-c", recipe.replace("TOKEN", "right")], capture_output=True, text=True, check=True).stdout
    assert made.split()[0] == DIGEST
    lock = WriteLock(made.split()[0])
    lock.unlock("right")
    assert lock.unlocked() == Unlocked()


def test_the_token_is_looked_at_also_when_already_unlocked() -> None:
    lock = WriteLock(DIGEST)
    lock.unlock("right")
    failing(lock)
    assert lock.unlocked() == Unlocked()
    lock.lock()
    lock.lock()
    assert lock.unlocked() is None


def test_an_unlock_replaces_the_one_before() -> None:
    lock = WriteLock(DIGEST)
    lock.unlock("right")
    lock.unlock("right", scope=(("docs",),))
    assert lock.unlocked() == Unlocked((("docs",),))


def test_an_unlock_runs_out_at_its_second() -> None:
    clock = FakeClock()
    lock = WriteLock(DIGEST, clock)
    lock.unlock("right", 10)
    clock.advance(9.999)
    assert lock.unlocked() is not None
    clock.advance(0.001)
    assert lock.unlocked() is None


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), True, "10", [1]])
def test_a_lifetime_is_a_finite_number_above_nothing(seconds: Any) -> None:
    lock = WriteLock(DIGEST)
    with pytest.raises(InvalidRequest):
        lock.unlock("right", seconds)
    assert lock.unlocked() is None


@pytest.mark.parametrize("token", [None, 1, b"right", ["right"], "x" * 100_000])
def test_a_token_is_text_of_bounded_length(token: Any) -> None:
    with pytest.raises(InvalidRequest):
        WriteLock(DIGEST).unlock(token)


def test_a_token_with_a_lone_surrogate_is_only_wrong() -> None:
    with pytest.raises(Denied):
        WriteLock(DIGEST).unlock("\ud800")


def test_after_five_wrong_tokens_it_backs_off_and_doubles_up_to_a_minute() -> None:
    clock = FakeClock()
    lock = WriteLock(DIGEST, clock)
    for _ in range(FREE_FAILURES - 1):
        failing(lock)
        assert lock.retry_after_seconds == 0
    for pause in (1, 2, 4, 8, 16, 32, 60, 60):
        failing(lock)
        assert lock.retry_after_seconds == pause
        with pytest.raises(WritesLocked, match="too many wrong tokens"):
            lock.unlock("right")
        clock.advance(pause - 0.001)
        with pytest.raises(WritesLocked):
            lock.unlock("right")
        clock.advance(0.001)
    assert pause == LONGEST_BACK_OFF_SECONDS
    assert lock.failures == FREE_FAILURES - 1 + 8


def test_a_right_token_after_the_back_off_starts_the_count_anew() -> None:
    clock = FakeClock()
    lock = WriteLock(DIGEST, clock)
    for _ in range(FREE_FAILURES):
        failing(lock)
    clock.advance(1)
    lock.unlock("right")
    assert lock.failures == 0
    for _ in range(FREE_FAILURES - 1):
        failing(lock)
    assert lock.retry_after_seconds == 0


def test_during_the_back_off_an_unlock_in_force_stays_and_locking_works() -> None:
    clock = FakeClock()
    lock = WriteLock(DIGEST, clock)
    lock.unlock("right")
    for _ in range(FREE_FAILURES):
        failing(lock)
    assert lock.unlocked() is not None
    lock.lock()
    assert lock.unlocked() is None

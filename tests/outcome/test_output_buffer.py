"""What is kept of a stream: exact to the byte, however it comes in."""

from __future__ import annotations

import sys
import tracemalloc
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.outcome import OutputBuffer

MODES: tuple[Literal["kill", "truncate"], ...] = ("kill", "truncate")


def expected(data: bytes, cap: int, mode: str) -> tuple[bytes, bytes]:
    """Head and tail by the plainest way there is."""
    if len(data) <= cap:
        return data, b""
    if mode == "kill":
        return data[:cap], b""
    tail = cap // 2
    return data[: cap - tail], data[len(data) - tail :]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cap", [1, 2, 3, 7, 10])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 25, 99])
@pytest.mark.parametrize("piece", [1, 2, 3, 5, 99])
def test_head_tail_and_counts_are_exact(mode: Literal["kill", "truncate"], cap: int, size: int, piece: int) -> None:
    data = bytes(range(size))
    buffer = OutputBuffer(cap, mode)
    for at in range(0, size, piece):
        omitted = buffer.append(data[at : at + piece])
        assert omitted == max(0, min(at + piece, size) - cap)
    captured = buffer.captured()
    assert (captured.head, captured.tail) == expected(data, cap, mode)
    assert captured.total_bytes == buffer.total_bytes == size
    assert captured.omitted_bytes == buffer.omitted_bytes == max(0, size - cap)
    assert buffer.limited is (size > cap)


@pytest.mark.fuzz
@given(st.integers(1, 50), st.sampled_from(MODES), st.lists(st.binary(max_size=60)))
def test_any_split_keeps_the_same(cap: int, mode: Literal["kill", "truncate"], pieces: list[bytes]) -> None:
    buffer = OutputBuffer(cap, mode)
    for piece in pieces:
        buffer.append(memoryview(bytearray(piece)))
        assert len(buffer.captured().raw) <= cap
    data = b"".join(pieces)
    assert (buffer.captured().head, buffer.captured().tail) == expected(data, cap, mode)


@pytest.mark.parametrize("mode", MODES)
def test_exactly_the_cap_is_not_limited(mode: Literal["kill", "truncate"]) -> None:
    buffer = OutputBuffer(1000, mode)
    assert buffer.append(b"x" * 1000) == 0
    assert not buffer.limited
    assert buffer.captured().raw == b"x" * 1000
    assert buffer.append(b"") == 0 and not buffer.limited
    assert buffer.append(b"y") == 1
    assert buffer.limited


def test_what_was_appended_may_be_reused() -> None:
    piece = bytearray(b"first")
    buffer = OutputBuffer(100)
    buffer.append(piece)
    piece[:] = b"other"
    assert buffer.captured().raw == b"first"


@pytest.mark.parametrize("mode", MODES)
def test_a_flood_needs_no_more_memory_than_the_cap(mode: Literal["kill", "truncate"]) -> None:
    buffer = OutputBuffer(100_000, mode)
    piece = b"x" * 65_536
    tracemalloc.start()
    try:
        for _ in range(800):
            buffer.append(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert buffer.total_bytes == 800 * 65_536
    assert peak < 300_000


def test_a_small_output_under_a_large_cap_takes_little_memory() -> None:
    buffer = OutputBuffer(1 << 30, "truncate")
    buffer.append(b"few bytes")
    assert sys.getsizeof(buffer._head) + sys.getsizeof(buffer._ring) < 1000


@pytest.mark.parametrize(("cap", "mode"), [(0, "kill"), (-1, "kill"), (1, "drop")])
def test_a_cap_or_mode_that_means_nothing_is_refused(cap: int, mode: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        OutputBuffer(cap, mode)  # type: ignore[arg-type]  # the point of the test

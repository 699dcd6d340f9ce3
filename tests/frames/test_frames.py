"""Cutting lines: the same frames however the bytes arrive, in bounded memory, at the speed of memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.frames import END, NEED_DATA, FrameReader, NextFrame, Oversized
from fable_exec.testing.strategies import frame_streams, splits

CASES: list[tuple[str, bytes, list[bytes | Oversized]]] = [
    ("nothing", b"", []),
    ("one frame", b"{}\n", [b"{}"]),
    ("two frames", b"a\nb\n", [b"a", b"b"]),
    ("an unterminated last line", b"a\nb", [b"a", b"b"]),
    ("only an unterminated line", b"abc", [b"abc"]),
    ("blank lines", b"\n\n \t\n\r\na\n\n", [b"a"]),
    ("a blank unterminated line", b"a\n  ", [b"a"]),
    ("a carriage return before the newline", b"a\r\nb\r\n", [b"a", b"b"]),
    ("a carriage return at the end of the stream", b"a\r", [b"a"]),
    ("one carriage return of two", b"a\r\r\n", [b"a\r"]),
    ("a carriage return inside", b"a\rb\n", [b"a\rb"]),
    ("exactly the limit", b"12345678\nx\n", [b"12345678", b"x"]),
    ("exactly the limit and a carriage return", b"12345678\r\nx\n", [b"12345678", b"x"]),
    ("exactly the limit, unterminated", b"12345678", [b"12345678"]),
    ("one over the limit", b"123456789\nx\n", [Oversized(9), b"x"]),
    ("one over the limit, unterminated", b"123456789", [Oversized(9)]),
    ("one over and a carriage return", b"123456789\r\nx\n", [Oversized(10), b"x"]),
    ("far over the limit", b"y" * 100 + b"\nx\n", [Oversized(100), b"x"]),
    ("far over, unterminated", b"y" * 100, [Oversized(100)]),
    ("oversized twice in a row", b"y" * 20 + b"\n" + b"z" * 30 + b"\nx\n", [Oversized(20), Oversized(30), b"x"]),
    ("oversized white space", b" " * 20 + b"\nx\n", [Oversized(20), b"x"]),
    ("bytes that are no UTF-8", b"\xff\x00\n", [b"\xff\x00"]),
    ("other line ends", b"a\x0bb\x0c\xe2\x80\xa8\n", [b"a\x0bb\x0c\xe2\x80\xa8"]),
]


def drained(reader: FrameReader) -> list[NextFrame]:
    frames: list[NextFrame] = []
    while (frame := reader.next_frame()) not in (NEED_DATA, END):
        frames.append(frame)
    return frames


def cut(pieces: Iterable[bytes], limit: int = 8) -> list[NextFrame]:
    reader = FrameReader(limit)
    frames: list[NextFrame] = []
    for piece in pieces:
        reader.feed(piece)
        frames += drained(reader)
        assert reader.next_frame() is NEED_DATA
    reader.feed_eof()
    frames += drained(reader)
    assert reader.next_frame() is END
    assert reader.next_frame() is END
    return frames


@pytest.mark.parametrize(("data", "frames"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_frames_are_the_same_whole_byte_by_byte_and_at_every_split(data: bytes, frames: list[bytes | Oversized]) -> None:
    assert cut([data]) == frames
    assert cut([data[at : at + 1] for at in range(len(data))]) == frames
    for at in range(len(data) + 1):
        assert cut([data[:at], data[at:]]) == frames


@pytest.mark.parametrize(("data", "frames"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_bytes_that_follow_do_not_change_what_came_before(data: bytes, frames: list[bytes | Oversized]) -> None:
    assert cut([data + b"\n", b"trail\n"]) == [*frames, b"trail"]


def test_a_complete_frame_does_not_wait_for_more() -> None:
    reader = FrameReader()
    reader.feed(b'{"a":1}\n{"b"')
    assert reader.next_frame() == b'{"a":1}'
    assert reader.next_frame() is NEED_DATA
    reader.feed(b":2}\n")
    assert reader.next_frame() == b'{"b":2}'


def test_pieces_may_pile_up_before_frames_are_asked_for() -> None:
    reader = FrameReader()
    for byte in b"one\ntwo\nthr":
        reader.feed(bytes([byte]))
    reader.feed_eof()
    assert drained(reader) == [b"one", b"two", b"thr"]


def test_a_piece_may_be_reused_after_it_was_fed() -> None:
    reader = FrameReader()
    piece = bytearray(b"first")
    reader.feed(memoryview(piece))
    piece[:] = b"other"
    reader.feed(b"\n")
    assert reader.next_frame() == b"first"


def test_bytes_after_the_end_are_refused_and_a_second_end_is_not() -> None:
    reader = FrameReader()
    reader.feed_eof()
    reader.feed_eof()
    with pytest.raises(ValueError, match="after the end"):
        reader.feed(b"x")


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        FrameReader(0)


def plainly(data: bytes, limit: int) -> list[bytes | Oversized]:
    """The same by splitting everything at once."""
    frames: list[bytes | Oversized] = []
    for line in data.split(b"\n"):
        frame = line.removesuffix(b"\r")
        if len(frame) > limit:
            frames.append(Oversized(len(line)))
        elif frame.strip():
            frames.append(frame)
    return frames


@pytest.mark.fuzz
@given(frame_streams(), st.data())
def test_any_split_of_lines_gives_the_frames_of_one_split(stream: bytes, data: st.DataObject) -> None:
    assert cut(data.draw(splits(stream))) == plainly(stream, 8)


@pytest.mark.fuzz
@given(st.lists(st.binary(max_size=40)), st.integers(1, 30))
def test_random_bytes_never_raise_and_never_exceed_the_limit(pieces: list[bytes], limit: int) -> None:
    for frame in cut(pieces, limit):
        assert isinstance(frame, Oversized) or (isinstance(frame, bytes) and len(frame) <= limit)


@pytest.mark.fuzz
@given(st.lists(st.one_of(st.binary(max_size=20), st.none(), st.just(b"\n"))))
def test_any_interleaving_of_feeding_and_asking_gives_the_same_frames(steps: list[bytes | None]) -> None:
    reader = FrameReader(8)
    frames: list[NextFrame] = []
    for step in steps:
        if step is not None:
            reader.feed(step)
        elif (frame := reader.next_frame()) is not NEED_DATA:
            frames.append(frame)
    reader.feed_eof()
    assert frames + drained(reader) == plainly(b"".join(step for step in steps if step is not None), 8)


def test_swallowing_an_oversized_frame_takes_bounded_memory() -> None:
    reader = FrameReader(64 * 1024)
    piece = b"x" * 65_536
    tracemalloc.start()
    try:
        for _ in range(3200):
            reader.feed(piece)
            assert reader.next_frame() is NEED_DATA
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 512 * 1024
    reader.feed(b"\nnext\n")
    assert drained(reader) == [Oversized(3200 * 65_536), b"next"]


def test_a_long_frame_in_small_pieces_is_not_scanned_again_for_each() -> None:
    """It would be looked at two hundred thousand times: more than any timeout allows."""
    reader = FrameReader(1 << 26)
    for _ in range((24 << 20) // 64):
        reader.feed(b"x" * 64)
        assert reader.next_frame() is NEED_DATA

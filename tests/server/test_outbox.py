"""Lines to a peer that reads slowly, late, or not at all."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator

import pytest

from fable_exec.server.outbox import HIGH_WATER_BYTES, Outbox


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    for descriptor in (read, write):
        try:
            os.close(descriptor)
        except OSError:
            pass


def read_all(descriptor: int, outbox: Outbox, size: int) -> bytes:
    got = b""
    while len(got) < size:
        got += os.read(descriptor, 1 << 16)
        outbox.flush()
    return got


def test_a_line_that_fits_is_written_at_once(pipe: tuple[int, int]) -> None:
    woken: list[int] = []
    outbox = Outbox(pipe[1], lambda: woken.append(1))
    outbox.post(b"hello\n")
    assert (os.read(pipe[0], 100), outbox.pending_bytes, woken) == (b"hello\n", 0, [])


def test_what_the_peer_does_not_take_waits_in_order_and_never_blocks(pipe: tuple[int, int]) -> None:
    woken: list[int] = []
    outbox = Outbox(pipe[1], lambda: woken.append(1))
    lines = [bytes([65 + number]) * 100_000 + b"\n" for number in range(5)]
    for line in lines:
        outbox.post(line)
    assert outbox.pending_bytes > 0
    assert woken
    whole = b"".join(lines)
    assert read_all(pipe[0], outbox, len(whole)) == whole
    assert outbox.pending_bytes == 0


def test_the_mode_of_the_descriptor_is_left_alone(pipe: tuple[int, int]) -> None:
    Outbox(pipe[1], lambda: None).post(b"x" * 1_000_000)
    assert os.get_blocking(pipe[1])


class FilledMeanwhile:
    """poll(2), and right after it somebody who shares the open file, has made it non-blocking and is quicker."""

    def __init__(self, poll: select.poll, write: int) -> None:
        self._poll, self._write = poll, write
        self.filled = 0

    def poll(self, milliseconds: int) -> list[tuple[int, int]]:
        ready = self._poll.poll(milliseconds)
        try:
            while ready:
                self.filled += os.write(self._write, b"-" * 4096)
        except BlockingIOError:
            pass
        return ready


def test_what_others_were_quicker_to_fill_breaks_nothing_and_loses_nothing(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[int] = []
    outbox = Outbox(pipe[1], lambda: woken.append(1))
    os.set_blocking(pipe[1], False)
    with monkeypatch.context() as patched:
        patched.setattr(outbox, "_poll", quicker := FilledMeanwhile(outbox._poll, pipe[1]))
        outbox.post(b"hello\n")
        outbox.flush()
    assert (outbox.broken, outbox.pending_bytes, woken) == (False, 6, [1])
    assert read_all(pipe[0], outbox, quicker.filled) == b"-" * quicker.filled
    outbox.flush()
    assert os.read(pipe[0], 100) == b"hello\n"
    assert not os.get_blocking(pipe[1])


def test_a_line_longer_than_there_is_room_is_whole_also_where_the_descriptor_does_not_block(pipe: tuple[int, int]) -> None:
    outbox = Outbox(pipe[1], lambda: None)
    os.set_blocking(pipe[1], False)
    line = bytes(range(256)) * 2000
    outbox.post(line)
    assert 0 < outbox.pending_bytes < len(line)
    assert (read_all(pipe[0], outbox, len(line)), outbox.pending_bytes) == (line, 0)


def test_workers_wait_before_they_encode(pipe: tuple[int, int]) -> None:
    outbox = Outbox(pipe[1], lambda: None)
    outbox.post(b"x" * (HIGH_WATER_BYTES + 200_000))
    made: list[int] = []

    def make(number: int) -> bytes:
        made.append(number)
        return b"y" * HIGH_WATER_BYTES

    workers = [threading.Thread(target=outbox.send, args=(lambda number=number: make(number),)) for number in range(4)]
    for worker in workers:
        worker.start()
    assert made == []
    total = 4 * HIGH_WATER_BYTES + HIGH_WATER_BYTES + 200_000
    most = 0
    got = 0
    while got < total:
        got += len(os.read(pipe[0], 1 << 16))
        outbox.flush()
        most = max(most, outbox.pending_bytes)
    for worker in workers:
        worker.join(30)
    assert sorted(made) == [0, 1, 2, 3]
    assert most < 2 * HIGH_WATER_BYTES


def test_a_peer_that_is_gone_breaks_it_and_lets_everyone_go_on(pipe: tuple[int, int]) -> None:
    woken: list[int] = []
    outbox = Outbox(pipe[1], lambda: woken.append(1))
    outbox.post(b"x" * (HIGH_WATER_BYTES + 200_000))
    waiting = threading.Thread(target=outbox.send, args=(lambda: b"never",))
    waiting.start()
    os.close(pipe[0])
    outbox.flush()
    assert outbox.broken
    outbox.give_up()
    waiting.join(30)
    assert not waiting.is_alive()
    outbox.post(b"dropped")
    assert outbox.pending_bytes == 0

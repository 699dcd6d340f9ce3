"""How fast FrameReader cuts lines, beside bytes.split over the whole input, the fastest that can be written in Python.

Run it alone: ``python benchmarks/bench_frames.py``. Every line of the table is the best of five runs over about 60 MB.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from fable_exec.frames import NEED_DATA, FrameReader

TOTAL_BYTES = 60_000_000
LINE_BYTES = (1024, 900 * 1024)
PIECE_BYTES = (4096, 65_536, 1_048_576)


def best_of(action: Callable[[], int], runs: int = 5) -> tuple[float, int]:
    """The shortest time of `runs` runs in seconds, and what the last one returned."""
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        count = action()
        times.append(time.perf_counter() - started)
    return min(times), count


def cut(data: bytes, piece_bytes: int) -> int:
    """Feed `data` in pieces; returns the number of frames."""
    reader = FrameReader()
    view = memoryview(data)
    frames = 0
    for at in range(0, len(data), piece_bytes):
        reader.feed(view[at : at + piece_bytes])
        while reader.next_frame() is not NEED_DATA:
            frames += 1
    return frames


def split(data: bytes) -> int:
    """The raw limit: one split of everything at once."""
    return len(data.split(b"\n")) - 1


def main() -> None:
    """Measure and print."""
    print(f"{'line bytes':>10} {'piece bytes':>11} {'frames':>8} {'MB/s':>8} {'split MB/s':>10}")
    for line_bytes in LINE_BYTES:
        line = b"{" + b"x" * (line_bytes - 2) + b"\n"
        data = line * (TOTAL_BYTES // line_bytes)
        limit_seconds, _ = best_of(lambda data=data: split(data))  # type: ignore[misc]
        for piece_bytes in PIECE_BYTES:
            seconds, frames = best_of(lambda data=data, size=piece_bytes: cut(data, size))  # type: ignore[misc]
            speeds = [len(data) / 1e6 / spent for spent in (seconds, limit_seconds)]
            print(f"{line_bytes:>10} {piece_bytes:>11} {frames:>8} {speeds[0]:>8.0f} {speeds[1]:>10.0f}")


if __name__ == "__main__":
    main()

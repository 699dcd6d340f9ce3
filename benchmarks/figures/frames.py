"""Cutting a stream into bounded lines, beside one split of everything at once, the fastest that Python can."""

from __future__ import annotations

from benchmarks.figure import Figure, at_least, megabytes_per_second
from benchmarks.measuring import Contestant, interleaved, timed
from benchmarks.peers import ENGINE
from benchmarks.setting import Setting
from fable_exec.frames import NEED_DATA, FrameReader

KIB = 1024
FULL_BYTES = 60_000_000
ENGINE_BYTES = 1_000_000
LINES = ((KIB, "1 KiB"), (900 * KIB, "900 KiB"))
PIECES = ((64 * KIB, 300.0), (4 * KIB, None), (1024 * KIB, None))
"""What one read gives: a pipe holds 64 KiB."""


def measure(setting: Setting) -> list[Figure]:
    return [figure for line_bytes, size in LINES for figure in _measure(setting, line_bytes, size)]


def _measure(setting: Setting, line_bytes: int, size: str) -> list[Figure]:
    line = b"{" + b"x" * (line_bytes - 2) + b"\n"
    data = line * max(2, setting.size(FULL_BYTES) // line_bytes)
    unit = megabytes_per_second(len(data))
    contestants = [timed(str(piece), lambda piece=piece: cut(data, piece)) for piece, _ in PIECES]  # type: ignore[misc]  # a lambda with defaults has no type
    contestants.append(timed("split", lambda: data.split(b"\n")))
    given = max(1, ENGINE_BYTES // line_bytes) * line_bytes
    for each in setting.peer(ENGINE, "engine_lines", line_bytes=line_bytes, total_bytes=given):
        contestants.append(Contestant(ENGINE, lambda act=each.act: act() * len(data) / given))  # type: ignore[misc]  # a lambda with defaults has no type
    found = interleaved(contestants, setting.rounds(15), warm_up=1)
    return [
        Figure(
            key=f"frames.{line_bytes // KIB}k.{piece // KIB}k",
            title=f"frames decoded, lines of {size}, read by {piece // KIB} KiB",
            unit=unit,
            ours=found[str(piece)],
            reference=found["split"],
            reference_name="bytes.split of the whole input",
            target=None if least is None else at_least(least, unit),
            peer=found.get(ENGINE),
            note="" if least is None else f"fable-engine is given {given / 1e6:.1f} MB, as its time grows with the bytes alone.",
        )
        for piece, least in PIECES
    ]


def cut(data: bytes, piece_bytes: int) -> int:
    """Feed `data` in pieces; returns the number of frames."""
    reader, view, frames = FrameReader(), memoryview(data), 0
    for at in range(0, len(data), piece_bytes):
        reader.feed(view[at : at + piece_bytes])
        while reader.next_frame() is not NEED_DATA:
            frames += 1
    return frames

"""write_file in process, beside write, fsync, rename and fsync of the directory by path."""

from __future__ import annotations

from benchmarks import raw
from benchmarks.figure import MILLISECONDS, Figure, times
from benchmarks.measuring import interleaved, timed
from benchmarks.peers import ENGINE
from benchmarks.setting import Setting

KIB, MIB = 1 << 10, 1 << 20
SIZES = ((KIB, "1 KiB", 300, 1.3), (MIB, "1 MiB", 100, 1.5))


def measure(setting: Setting) -> list[Figure]:
    return [_measure(setting, *each) for each in SIZES]


def _measure(setting: Setting, size_bytes: int, size: str, rounds: int, limit: float) -> Figure:
    broker, content = setting.broker(), "x" * size_bytes
    data, path = content.encode(), str(setting.workspace() / "written")
    contestants = [
        timed("ours", lambda: broker.write_file("written", content)),
        timed("raw", lambda: raw.durable_write(path, data)),
    ]
    contestants += setting.peer(ENGINE, "engine_write", workspace=str(setting.workspace()), size_bytes=size_bytes)
    found = interleaved(contestants, setting.rounds(rounds))
    return Figure(
        key=f"write_file.{size.replace(' ', '').lower()}",
        title=f"write_file {size}, in process",
        unit=MILLISECONDS,
        ours=found["ours"],
        reference=found["raw"],
        reference_name="write + fsync + rename + fsync(dir)",
        target=times(limit),
        peer=found.get(ENGINE),
    )

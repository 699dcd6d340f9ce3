"""inspect_files in process, beside reading the file by path and hashing it."""

from __future__ import annotations

import os

from benchmarks import raw
from benchmarks.figure import MICROSECONDS, Figure, Target, times
from benchmarks.measuring import interleaved, timed
from benchmarks.peers import ENGINE
from benchmarks.setting import CODE, Setting

KIB, MIB = 1 << 10, 1 << 20
SIZES = ((MIB, "1 MiB", 300, times(1.3)), (KIB, "1 KiB", 1000, None))


def measure(setting: Setting) -> list[Figure]:
    return [_measure(setting, *each) for each in SIZES]


def _measure(setting: Setting, size_bytes: int, size: str, rounds: int, target: Target | None) -> Figure:
    workspace = setting.workspace()
    path = str(workspace / "inspected")
    raw.durable_write(path, (CODE * (size_bytes // len(CODE) + 1)).encode()[:size_bytes])
    os.chmod(path, 0o600)
    broker = setting.broker(workspace=workspace)
    contestants = [
        timed("ours", lambda: broker.inspect_files("inspected")),
        timed("raw", lambda: raw.read_and_hash(path)),
    ]
    contestants += setting.peer(ENGINE, "engine_inspect", workspace=str(workspace), path="inspected")
    found = interleaved(contestants, setting.rounds(rounds))
    return Figure(
        key=f"inspect_file.{size.replace(' ', '').lower()}",
        title=f"inspect_files {size}, in process",
        unit=MICROSECONDS,
        ours=found["ours"],
        reference=found["raw"],
        reference_name="read + SHA-256",
        target=target,
        peer=found.get(ENGINE),
    )

"""`true` from a host with 1 GiB resident, 50 threads and 10 000 open descriptors, beside the same call from a small one."""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.figure import MILLISECONDS, Figure, times
from benchmarks.measuring import Contestant, Samples, interleaved
from benchmarks.peers import ENGINE
from benchmarks.setting import Setting

BIG = {"resident": 1 << 30, "threads": 50, "descriptors": 10_000}


def measure(setting: Setting) -> list[Figure]:
    size = {name: setting.size(full) for name, full in BIG.items()}
    contestants = [*_hosts(setting, "small", {}), *_hosts(setting, "big", size)]
    found = interleaved(contestants, setting.rounds(400), warm_up=5)
    rows = (("ours", "execute `true`"), ("subprocess.run", "subprocess.run"))
    return [
        Figure(
            key=f"big_host.{name}",
            title=f"{title}, big host",
            unit=MILLISECONDS,
            ours=found[f"{name}, big"],
            reference=found[f"{name}, small"],
            reference_name="the same, small host",
            target=times(1.15, both=True) if name == "ours" else None,
            peer=found.get(f"{ENGINE}, big") if name == "ours" else None,
            others=_engine_small(found) if name == "ours" else {},
            note=f"{size['resident'] >> 20} MiB resident, {size['threads']} threads, {size['descriptors']} open descriptors."
            if name == "ours"
            else "",
        )
        for name, title in rows
    ]


def _hosts(setting: Setting, kind: str, size: dict[str, int]) -> list[Contestant]:
    """The same jobs in a process of this size, and the peer's in one more."""
    jobs: list[dict[str, Any]] = [{"job": "ours_execute", "workspace": str(setting.workspace())}, {"job": "subprocess_run"}]
    found = setting.host([f"ours, {kind}", f"subprocess.run, {kind}"], jobs, sys.executable, **size)
    if setting.peers.has(ENGINE):
        job = {"job": "engine_execute", "workspace": str(setting.workspace()), "command": ["true"]}
        found = [*found, *setting.host([f"{ENGINE}, {kind}"], [job], setting.peers.python, **size)]
    return found


def _engine_small(found: dict[str, Samples]) -> dict[str, Samples]:
    return {f"{ENGINE}, small host": found[f"{ENGINE}, small"]} if f"{ENGINE}, small" in found else {}

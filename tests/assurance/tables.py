"""The tables of docs/explanation/assurance.md, made from what the code says."""

from __future__ import annotations

from collections.abc import Iterator

from fable_exec.assurance.model import Asset, BlastRadius, blast_radius
from fable_exec.assurance.model.reach import AssetReach
from tests.assurance import hosts

__all__ = ["reach_table", "ways_table"]


def reach_table() -> str:
    """How brittle each asset is on each host, with the layers of its worst way; the workspace while locked, the rest unlocked."""
    lines = ["| | " + " | ".join(hosts.HOSTS) + " |", "|---|" + "---|" * len(hosts.HOSTS)]
    radii = {host: _radii(host) for host in hosts.HOSTS}
    for asset in Asset:
        cells = [_cell(radius[asset]) for radius in (radii[host][asset is Asset.WORKSPACE] for host in hosts.HOSTS)]
        lines.append(f"| {asset.value} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def ways_table() -> str:
    """Every way to each asset on a host that has everything, and what stands before it, while unlocked and while locked."""
    return "\n".join(["| to | is to | layers |", "|---|---|---|", *_ways()])


def _ways() -> Iterator[str]:
    unlocked, locked = _radii("all")
    for open_way, locked_way in zip(unlocked.ways, locked.ways, strict=True):
        now = ", ".join(layer.value for layer in open_way.layers) or "none"
        then = ", ".join(layer.value for layer in locked_way.layers)
        also = "" if open_way.layers == locked_way.layers else f"; while locked {then}"
        yield f"| {open_way.mechanism} | {open_way.asset.value} | {now}{also} |"


def _radii(host: str) -> tuple[BlastRadius, BlastRadius]:
    support = hosts.HOSTS[host]
    return blast_radius(hosts.plan(support, writable=True)), blast_radius(hosts.plan(support, writable=False))


def _cell(reach: AssetReach) -> str:
    layers = ", ".join(layer.value for layer in reach.worst.layers)
    return f"{reach.brittleness:.2f}: {layers}" if layers else "1.00"

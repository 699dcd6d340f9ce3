"""What a command can reach under a launch plan, by which mechanism, and which layers stand before it. Pure.

An asset is as brittle as its worst way: 1 / (1 + layers that must all fail). The ways themselves are the table of `ways`; what
should be out of reach is not said here: policies do.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from fable_exec.assurance.causal import CausalDAG, NodeKind
from fable_exec.assurance.model.barriers import Barriers
from fable_exec.assurance.model.ways import Asset, Layer, Way, ways_under
from fable_exec.confine import Plan
from fable_exec.policy import BrokerPolicy

__all__ = ["AssetReach", "BlastRadius", "blast_radius", "insisted_ways"]

COMMAND = "execute(command)"


@attrs.frozen
class AssetReach:
    """All ways to one asset."""

    asset: Asset
    ways: tuple[Way, ...]

    @property
    def worst(self) -> Way:
        """The way that the fewest layers cut; of several, the first."""
        return min(self.ways, key=lambda way: len(way.layers))

    @property
    def reachable(self) -> bool:
        """Whether some way is open."""
        return not self.worst.layers

    @property
    def brittleness(self) -> float:
        """From near 0 to 1; 1 is open."""
        return self.worst.brittleness


@attrs.frozen
class BlastRadius:
    """What do(execute(command)) can reach under one plan."""

    assets: tuple[AssetReach, ...]

    def __getitem__(self, asset: Asset) -> AssetReach:
        return next(each for each in self.assets if each.asset is asset)

    @property
    def ways(self) -> tuple[Way, ...]:
        """All ways to all assets, in the order of the assets."""
        return tuple(way for each in self.assets for way in each.ways)

    def is_cut(self, protection: str) -> bool:
        """Whether every way that `protection` claims has a layer before it."""
        return all(way.layers for way in self.ways if way.protection == protection)

    @functools.cached_property
    def graph(self) -> CausalDAG:
        """Commands and layers cause mechanisms, mechanisms reach assets."""
        kinds = {COMMAND: NodeKind.INTERVENTION}
        edges: list[tuple[str, str]] = []
        for way in self.ways:
            mechanism = _named(way)
            kinds |= {mechanism: NodeKind.MECHANISM, way.asset.value: NodeKind.ASSET}
            edges += [(COMMAND, mechanism), *((layer.value, mechanism) for layer in way.layers), (mechanism, way.asset.value)]
        return CausalDAG(edges, kinds)

    def reached(self, failed: Iterable[Layer] = ()) -> frozenset[Asset]:
        """The assets that a command reaches when the layers of `failed` do nothing: the graph, after do(execute(command)) and
        do(layer fails), is computed forward."""
        graph = self.graph.do(COMMAND, 1)
        for layer in failed:
            if layer.value in graph.nodes:
                graph = graph.do(layer.value, 0)
        standing: dict[str, float] = {
            layer.value: 1 for layer in Layer if layer.value in graph.nodes and layer.value not in graph.fixed
        }
        values = graph.forward(standing, {**dict.fromkeys(map(_named, self.ways), _is_open), **dict.fromkeys(_ASSET_NAMES, _any)})
        return frozenset(each.asset for each in self.assets if values[each.asset.value])

    def to_json(self) -> list[dict[str, Any]]:
        """An object for each asset."""
        return [
            {
                "asset": each.asset.value,
                "reachable": each.reachable,
                "brittleness": round(each.brittleness, 4),
                "ways": [
                    {"mechanism": way.mechanism, "protection": way.protection, "layers": [layer.value for layer in way.layers]}
                    for way in each.ways
                ],
            }
            for each in self.assets
        ]


_ASSET_NAMES = tuple(asset.value for asset in Asset)


def _named(way: Way) -> str:
    return f"{way.asset.value}: {way.mechanism}"


def _is_open(parents: Mapping[str, float]) -> float:
    """A command, and no layer that stands."""
    return float(bool(parents[COMMAND]) and not any(value for name, value in parents.items() if name != COMMAND))


def _any(parents: Mapping[str, float]) -> float:
    return float(any(parents.values()))


def blast_radius(plan: Plan) -> BlastRadius:
    """What a command that is launched by `plan` can reach, and what stands before the rest."""
    ways = ways_under(Barriers(plan))
    reaches = (AssetReach(asset, tuple(way for way in ways if way.asset is asset)) for asset in Asset)
    return BlastRadius(tuple(each for each in reaches if each.ways))


def insisted_ways(policy: BrokerPolicy, radius: BlastRadius, *, writable: bool) -> tuple[Way, ...]:
    """The ways that `policy` insists on having cut.

    Args:
        writable: writes are unlocked, so that the workspace is open on purpose.
    """
    mode = policy.confinement.mode
    return tuple(
        way
        for way in radius.ways
        if way.protection
        and mode(way.protection) == "strict"
        and not (writable and way.protection == "workspace_writes")
        and not (way.protection == "network" and policy.confinement.network == "full")
    )

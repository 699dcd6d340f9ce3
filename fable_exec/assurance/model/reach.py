"""What a command can reach under a launch plan, by which mechanism, and which layers stand before it. Pure.

Each way to an asset is a row of the table below: a mechanism, and for each layer that can cut it a question to the plan. An asset
is as brittle as its worst way: 1 / (1 + layers that must all fail). What should be out of reach is not said here: policies do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

import attrs

from fable_exec.assurance.causal import CausalDAG, NodeKind
from fable_exec.assurance.model.barriers import Barriers
from fable_exec.confine import Plan
from fable_exec.policy import BrokerPolicy

__all__ = ["Asset", "AssetReach", "BlastRadius", "Layer", "Way", "blast_radius", "insisted_ways"]

COMMAND = "execute(command)"


class Asset(Enum):
    """What could be harmed. The value is its name in reports."""

    WORKSPACE = "workspace"
    HOST_FILES = "host files"
    HOST_METADATA = "host metadata"
    CREDENTIALS = "credentials"
    NETWORK = "network"
    HOST_SOCKETS = "host sockets"
    OTHER_PROCESSES = "other processes"
    LATER_FILES = "files that run later"
    KERNEL = "kernel interfaces"


class Layer(Enum):
    """What can stand in the way, each by itself: a fault in one leaves the others."""

    MOUNTS = "mount namespace"
    LANDLOCK = "Landlock"
    SECCOMP = "seccomp"
    NETWORK = "network namespace"
    PROCESSES = "PID namespace"
    PINS = "pins"
    SWEEP = "sweep"


@attrs.frozen
class Way:
    """How a command gets at an asset in this plan. `layers` must all fail for that; none means that nothing is in the way."""

    mechanism: str
    asset: Asset
    protection: str
    """The protection that claims to cut it; "" where none does."""
    layers: tuple[Layer, ...]

    @property
    def brittleness(self) -> float:
        return 1 / (1 + len(self.layers))


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
    barriers = Barriers(plan)
    ways = [each.in_plan(barriers) for each in _WAYS if each.exists(barriers)]
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


# The table.

_Question = Callable[[Barriers], bool]


@attrs.frozen
class _Row:
    mechanism: str
    asset: Asset
    protection: str
    cut_by: Mapping[Layer, _Question]
    exists: _Question = lambda barriers: True

    def in_plan(self, barriers: Barriers) -> Way:
        layers = tuple(layer for layer, cuts in self.cut_by.items() if cuts(barriers))
        return Way(self.mechanism, self.asset, self.protection, layers)


_SOMEBODYS_FILE = "/home/.somebody/.profile"
_SOMEBODYS_KEY = "/home/.somebody/.ssh/id_ed25519"
_SYSTEM_FILE = "/etc/passwd"
_SYSTEM_SECRET = "/etc/shadow"
_SYSTEM_SOCKET = "/run/docker.sock"
_AT_FDCWD = -100
_CLONE_NEWUSER = 0x10000000
_AF_UNIX, _AF_INET = 1, 2
_STREAM, _DATAGRAM = 1, 2


def _keeps(path: str) -> dict[Layer, _Question]:
    """What keeps a file from being changed."""
    return {Layer.MOUNTS: lambda of: of.mounts_keep(path), Layer.LANDLOCK: lambda of: of.landlock_refuses("write_file", path)}


_KEEPS_WORKSPACE: dict[Layer, _Question] = {
    Layer.MOUNTS: lambda of: of.mounts_keep(of.workspace),
    Layer.LANDLOCK: lambda of: of.landlock_refuses("write_file", of.workspace),
}


def _refuses_metadata(of: Barriers) -> bool:
    return of.filter_refuses("fchmodat", _AT_FDCWD)


def _refuses_inet(of: Barriers) -> bool:
    return of.filter_refuses("socket", _AF_INET, _STREAM)


def _refuses_datagrams(of: Barriers) -> bool:
    return of.filter_refuses("socket", _AF_INET, _DATAGRAM)


def _refuses_unix(of: Barriers) -> bool:
    return of.filter_refuses("socket", _AF_UNIX, _STREAM)


_OTHERS_UNTRACEABLE: dict[Layer, _Question] = {
    Layer.PROCESSES: lambda of: of.has_own_processes and of.has_own_proc,
    Layer.LANDLOCK: lambda of: of.has_domain,
}

_WAYS: tuple[_Row, ...] = (
    _Row("write a file", Asset.WORKSPACE, "workspace_writes", _KEEPS_WORKSPACE),
    _Row(
        "change modes and times",
        Asset.WORKSPACE,
        "workspace_writes",
        {Layer.MOUNTS: _KEEPS_WORKSPACE[Layer.MOUNTS], Layer.SECCOMP: _refuses_metadata},
    ),
    _Row("write a user's file", Asset.HOST_FILES, "host_writes", _keeps(_SOMEBODYS_FILE)),
    _Row("write a system file", Asset.HOST_FILES, "host_writes", _keeps(_SYSTEM_FILE)),
    _Row(
        "change modes, times and owners",
        Asset.HOST_METADATA,
        "host_metadata",
        {Layer.MOUNTS: lambda of: of.mounts_keep(_SYSTEM_FILE), Layer.SECCOMP: _refuses_metadata},
    ),
    _Row(
        "see names and sizes",
        Asset.HOST_METADATA,
        "",
        {Layer.MOUNTS: lambda of: of.mounts_hide(_SOMEBODYS_FILE)},
    ),
    _Row(
        "read a user's key",
        Asset.CREDENTIALS,
        "host_reads",
        {
            Layer.MOUNTS: lambda of: of.mounts_hide(_SOMEBODYS_KEY),
            Layer.LANDLOCK: lambda of: of.landlock_refuses("read_file", _SOMEBODYS_KEY),
        },
    ),
    _Row(
        "read a secret in /etc",
        Asset.CREDENTIALS,
        "host_reads",
        {
            Layer.MOUNTS: lambda of: of.mounts_hide(_SYSTEM_SECRET),
            Layer.LANDLOCK: lambda of: of.landlock_refuses("read_file", _SYSTEM_SECRET),
        },
    ),
    _Row("read the environment of other processes", Asset.CREDENTIALS, "other_processes", _OTHERS_UNTRACEABLE),
    _Row(
        "connect by TCP",
        Asset.NETWORK,
        "network",
        {
            Layer.NETWORK: lambda of: of.has_own_network,
            Layer.SECCOMP: _refuses_inet,
            Layer.LANDLOCK: lambda of: of.landlock_limits_ports("connect_tcp"),
        },
    ),
    _Row(
        "send datagrams",
        Asset.NETWORK,
        "network",
        {
            Layer.NETWORK: lambda of: of.has_own_network,
            Layer.SECCOMP: _refuses_datagrams,
            Layer.LANDLOCK: lambda of: of.landlock_limits_ports("connect_send_udp"),
        },
    ),
    _Row("connect to a port that the policy lists", Asset.NETWORK, "", {}, exists=lambda of: of.open_ports),
    _Row(
        "connect to a socket with a path",
        Asset.HOST_SOCKETS,
        "host_sockets",
        {
            Layer.MOUNTS: lambda of: of.mounts_hide(_SYSTEM_SOCKET),
            Layer.SECCOMP: _refuses_unix,
            Layer.LANDLOCK: lambda of: of.landlock_refuses("resolve_unix", _SYSTEM_SOCKET),
        },
    ),
    _Row(
        "connect to an abstract socket",
        Asset.HOST_SOCKETS,
        "host_sockets",
        {
            Layer.NETWORK: lambda of: of.has_own_network,
            Layer.SECCOMP: _refuses_unix,
            Layer.LANDLOCK: lambda of: of.landlock_scopes("abstract_unix_socket"),
        },
    ),
    _Row(
        "signal them",
        Asset.OTHER_PROCESSES,
        "other_processes",
        {Layer.PROCESSES: lambda of: of.has_own_processes, Layer.LANDLOCK: lambda of: of.landlock_scopes("signal")},
    ),
    _Row(
        "trace them",
        Asset.OTHER_PROCESSES,
        "other_processes",
        {
            Layer.PROCESSES: lambda of: of.has_own_processes,
            Layer.SECCOMP: lambda of: of.filter_refuses("ptrace"),
            Layer.LANDLOCK: lambda of: of.has_domain,
        },
    ),
    _Row("see them in /proc", Asset.OTHER_PROCESSES, "other_processes", {Layer.PROCESSES: lambda of: of.has_own_proc}),
    _Row("write a start-up file outside", Asset.LATER_FILES, "host_writes", _keeps(_SOMEBODYS_FILE)),
    _Row(
        "change a hook in the workspace",
        Asset.LATER_FILES,
        "later_files",
        {**_KEEPS_WORKSPACE, Layer.PINS: lambda of: of.pins, Layer.SWEEP: lambda of: of.is_swept},
    ),
    _Row(
        "plant a hook in the workspace",
        Asset.LATER_FILES,
        "later_files",
        {**_KEEPS_WORKSPACE, Layer.SWEEP: lambda of: of.is_swept},
    ),
    _Row(
        "ask for io_uring",
        Asset.KERNEL,
        "kernel_surface",
        {Layer.SECCOMP: lambda of: of.filter_refuses("io_uring_setup")},
    ),
    _Row(
        "make a user namespace",
        Asset.KERNEL,
        "kernel_surface",
        {Layer.SECCOMP: lambda of: of.filter_refuses("unshare", _CLONE_NEWUSER)},
    ),
)

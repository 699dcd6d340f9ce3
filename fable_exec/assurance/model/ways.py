"""The ways by which a command gets at what could be harmed: a table, with a question to the plan for each layer that can cut one.

Asked of a plan's `Barriers`; what follows from the answers: `reach`. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

import attrs

from fable_exec.assurance.model.barriers import Barriers

__all__ = ["Asset", "Layer", "Way", "ways_under"]


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
        """1 where nothing is in the way, and the less the more layers are: 1 / (1 + layers)."""
        return 1 / (1 + len(self.layers))


def ways_under(barriers: Barriers) -> tuple[Way, ...]:
    """Every way that there is under this plan, in the order of the table, each with the layers that cut it."""
    return tuple(row.in_plan(barriers) for row in _WAYS if row.exists(barriers))


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
    return of.filter_refuses("fchmodat")


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

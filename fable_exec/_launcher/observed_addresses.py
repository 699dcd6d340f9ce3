"""Whether confinement keeps a command from the address it turns to, judged from the plan and lists in /proc, for reports only.

As with files, the kernel decides by itself and nothing here may ever be an answer. Sources: ip(7), ipv6(7), unix(7), proc_net(5).
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator

from .linuxos import getxattr
from .observed_budget import Budget, OverBudget
from .typed import Any, NamedTuple

_FAMILY = struct.Struct("=H")
_PORT = struct.Struct("!H")
_LISTENING = "0A"
_NAME_SERVER = 53
_BLOCKS = (512,) * 8 + (4096,) * 16
"""How a table is read, and how much of it: for each block the kernel goes through all that came before."""
_KIND_OF_SOCKET = "system.sockprotoname"
_MAPPED = bytes(10) + b"\xff\xff"  # an IPv4 address within IPv6


class Address(NamedTuple):
    """A socket address. For Unix sockets `path` or `name` (abstract, without its leading NUL), else `host` and `port`."""

    family: int
    path: str = ""
    name: str = ""
    host: str = ""
    port: int = 0

    @property
    def text(self) -> str:
        """As reports show it; empty for a socket with a path."""
        if self.family == socket.AF_UNIX:
            return f"@{self.name}" if self.name else ""
        return f"[{self.host}]:{self.port}" if self.family == socket.AF_INET6 else f"{self.host}:{self.port}"


def parse(raw: bytes) -> Address | None:
    """The address in a `struct sockaddr`; None for other families, and where there is none."""
    if len(raw) < _FAMILY.size:
        return None
    family = _FAMILY.unpack_from(raw)[0]
    if family == socket.AF_UNIX:
        rest = raw[2:]
        if rest[:1] == b"\0":
            return Address(family, name=os.fsdecode(rest[1:])) if len(rest) > 1 else None
        path = os.fsdecode(rest.split(b"\0", 1)[0])
        return Address(family, path=path) if path else None
    if family == socket.AF_INET and len(raw) >= 8:
        return Address(family, host=socket.inet_ntop(family, raw[4:8]), port=_PORT.unpack_from(raw, 2)[0])
    if family == socket.AF_INET6 and len(raw) >= 24:
        return Address(family, host=socket.inet_ntop(family, raw[8:24]), port=_PORT.unpack_from(raw, 2)[0])
    return None


class Network:
    """What the plan leaves of the network.

    Args:
        rules: "kind": "own" (a network of the launcher's, loopback only), "ports" (TCP to and on the listed ports of the host's)
            or "open"; "connect" and "bind": the ports; "reserved": TCP ports that are refused whatever the kind; "names": whose
            abstract names there are: "own", the host's as well but out of reach ("scoped"), or "open".
    """

    def __init__(self, rules: dict[str, Any], budget: Budget) -> None:
        self._budget = budget
        self._kind: str = rules["kind"]
        self._ports: dict[str, list[int]] = {"connect": rules["connect"], "send": rules["connect"], "bind": rules["bind"]}
        self._reserved: list[int] = rules["reserved"]
        self._names: str = rules["names"]

    def refuses(self, operation: str, address: Address, pid: int, descriptor: int) -> bool | None:
        """Whether the plan keeps `pid` from connecting its `descriptor` to, sending to or binding `address`.

        None when that does not show: the call fails by itself, or reaches nobody yet. Raises OSError when it is no socket,
        OverBudget when too many sockets would have to be looked through.
        """
        self._budget.check()
        reserved, by_kind = address.port in self._reserved, self._may_refuse(operation, address)
        if not reserved and not by_kind:
            return False
        ours = _kind_of(pid, descriptor)
        if ours is None or not _takes(ours, address) or (operation == "send" and not ours.datagrams):
            return None  # the address of another kind of socket is a fault of the caller's
        if reserved and not ours.datagrams:  # they are Landlock's, which knows TCP
            return True
        if not by_kind:
            return None  # a datagram that goes through tells nothing of the connection that did not
        if address.family == socket.AF_UNIX:
            return self._hides_name(address.name, pid)
        if self._kind == "own" and _is_loopback(address):
            return self._wants_the_hosts(operation, address, pid, ours)
        return True

    def _may_refuse(self, operation: str, address: Address) -> bool:
        if address.family == socket.AF_UNIX:
            return operation != "bind" and bool(address.name) and self._names != "open"
        if self._kind == "ports":
            return address.port not in self._ports[operation]
        return self._kind == "own" and not (operation == "bind" and _is_loopback(address))

    def _hides_name(self, name: str, pid: int) -> bool:
        sockets = self._abstract_sockets(pid, name.replace("\0", "@"))
        if self._names == "own":
            return not sockets
        # A name of the host's network: Landlock's scope lets through what a process of the launcher's own has.
        return bool(sockets) and not any(self._is_held(each) for each in sockets)

    def _wants_the_hosts(self, operation: str, address: Address, pid: int, ours: Kind) -> bool | None:
        """Whether it is a port of the host's that is wanted on this machine, because nothing of the launcher's own is there.

        To connect a datagram socket sends nothing: the C library does so to see which address it would have, for every name that
        it looks up. Only a name server's port has no other use.
        """
        if not ours.datagrams:
            return not self._is_taken(address.port, pid, "tcp", _LISTENING)
        if operation == "send" or address.port == _NAME_SERVER:
            return not self._is_taken(address.port, pid, "udp", "")
        return None

    def _is_taken(self, port: int, pid: int, table: str, state: str) -> bool:
        """Whether anything in the network of `pid` has this port, in this state if one is given."""
        ending = f":{port:04X}"
        return any(
            local.endswith(ending) and found.startswith(state)
            for name in (table, f"{table}6")
            for _, local, _, found, *_ in self._lines(pid, name, 4)
        )

    def _abstract_sockets(self, pid: int, name: str) -> list[str]:
        """Inodes of the sockets with this abstract name in the network of `pid`."""
        return [fields[6] for fields in self._lines(pid, "unix", 7) if len(fields) == 8 and fields[7] == f"@{name}"]

    def _is_held(self, inode: str) -> bool:
        """Whether a process of this PID namespace, whose /proc is ours, has the socket open."""
        link = f"socket:[{inode}]"
        for process in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), os.scandir(f"/proc/{process}/fd") as descriptors:
                for each in descriptors:
                    self._budget.check()
                    with contextlib.suppress(OSError):
                        if os.readlink(each.path) == link:
                            return True
        return False

    def _lines(self, pid: int, table: str, splits: int) -> Iterator[list[str]]:
        """The lines of a table of the network that `pid` has, without its heading. Raises OverBudget where it is too long.

        Little by little, because the kernel goes through as much of its tables as it is asked for: what listens comes first in
        that of TCP, and a look at all of it takes milliseconds.
        """
        try:
            handle = os.open(f"/proc/{pid}/net/{table}", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # a machine without IPv6
        try:
            rest, heading = b"", True
            for size in _BLOCKS:
                self._budget.check()
                block = os.read(handle, size)
                if not block:
                    return
                *lines, rest = (rest + block).split(b"\n")
                for line in lines[heading:]:
                    yield os.fsdecode(line).split(None, splits)
                heading = heading and not lines
        finally:
            os.close(handle)
        raise OverBudget


class Kind(NamedTuple):
    """What a socket is: its family, and whether it takes datagrams."""

    family: int
    datagrams: bool


_KINDS = {
    "TCP": Kind(socket.AF_INET, datagrams=False),
    "TCPv6": Kind(socket.AF_INET6, datagrams=False),
    "UDP": Kind(socket.AF_INET, datagrams=True),
    "UDPv6": Kind(socket.AF_INET6, datagrams=True),
    "UNIX-STREAM": Kind(socket.AF_UNIX, datagrams=False),
    "UNIX": Kind(socket.AF_UNIX, datagrams=True),  # also sequenced packets, and before Linux 5.15 streams
}
"""By the name that the kernel gives it. Nothing is told of others."""


def _kind_of(pid: int, descriptor: int) -> Kind | None:
    """The kind of another process's socket, by its attribute; None for one that is not known. Raises OSError when it is none.

    Not by a copy (pidfd_getfd(2)): the caller may close its own meanwhile, and who closes the last one of a socket that lingers
    waits for as long as the caller likes.
    """
    name = getxattr(f"/proc/{pid}/fd/{descriptor}", _KIND_OF_SOCKET)
    return _KINDS.get(os.fsdecode(name.rstrip(b"\0")))


def _is_loopback(address: Address) -> bool:
    """Whether it is this machine, or "any", which means this machine where one connects to it."""
    packed = socket.inet_pton(address.family, address.host).removeprefix(_MAPPED)
    if len(packed) == 4:
        return packed[0] == 127 or packed == bytes(4)
    return packed[:15] == bytes(15) and packed[15] <= 1


def _takes(ours: Kind, address: Address) -> bool:
    """Whether the socket is of the address's family. Datagrams over IPv6 sockets may have IPv4 addresses (ipv6(7))."""
    if ours.family == address.family:
        return True
    return ours.family == socket.AF_INET6 and address.family == socket.AF_INET and ours.datagrams

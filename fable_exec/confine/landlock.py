"""What Landlock can restrict, by ABI, and a set of path and port rules as data for the launcher's step `restrict_files`.

Pure: rules are compiled for the newest ABI known here and then reduced to the kernel's, and what is lost is named. Everything
that an ABI can restrict is restricted; rules only grant. Sources: landlock(7), `include/uapi/linux/landlock.h` up to Linux 7.3.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, Literal

import attrs

__all__ = ["NEWEST_ABI", "RIGHTS", "LandlockRules", "Right", "Ruleset", "compile_rules", "downgrade", "left_open", "rights"]

Kind = Literal["fs", "net", "scope", "flag"]
"""The field that the bit belongs to: handled_access_fs, handled_access_net, scoped, or the flags of landlock_restrict_self(2)."""


@attrs.frozen
class Right:
    """One bit of Landlock.

    Args:
        abi: the first ABI that has it.
        without: what happens on a kernel without it.
        weaker: whether that means less protection; else some ability of commands is missing.
        of_files: whether a rule about a single file may grant it, and not only one about a directory.
    """

    kind: Kind
    name: str
    bit: int
    abi: int
    without: str = ""
    weaker: bool = True
    of_files: bool = False

    @property
    def mask(self) -> int:
        return 1 << self.bit


def _first(name: str, bit: int, *, of_files: bool = False) -> Right:
    return Right("fs", name, bit, 1, "no file is restricted", of_files=of_files)


RIGHTS: tuple[Right, ...] = (
    _first("execute", 0, of_files=True),
    _first("write_file", 1, of_files=True),
    _first("read_file", 2, of_files=True),
    _first("read_dir", 3),
    _first("remove_dir", 4),
    _first("remove_file", 5),
    _first("make_char", 6),
    _first("make_dir", 7),
    _first("make_reg", 8),
    _first("make_sock", 9),
    _first("make_fifo", 10),
    _first("make_block", 11),
    _first("make_sym", 12),
    Right("fs", "refer", 13, 2, "files cannot be moved or linked from one directory to another", weaker=False),
    Right("fs", "truncate", 14, 3, "a file that may not be written can still be emptied", of_files=True),
    Right("net", "bind_tcp", 0, 4, "TCP ports can be listened on"),
    Right("net", "connect_tcp", 1, 4, "TCP ports can be connected to"),
    Right("fs", "ioctl_dev", 15, 5, "devices that may be read take every ioctl", of_files=True),
    Right("scope", "abstract_unix_socket", 0, 6, "abstract sockets of the host can be connected to"),
    Right("scope", "signal", 1, 6, "processes outside can be signalled"),
    Right("flag", "log_same_exec_off", 0, 7, "refusals before the first exec are logged", weaker=False),
    Right("flag", "log_new_exec_on", 1, 7, "refusals are not logged after an exec", weaker=False),
    Right("flag", "log_subdomains_off", 2, 7, "refusals of nested domains are logged", weaker=False),
    Right("flag", "tsync", 3, 8, "only the calling thread is restricted", weaker=False),
    Right("fs", "resolve_unix", 16, 9, "sockets of the host that have a path can be connected to", of_files=True),
    Right("net", "bind_udp", 2, 10, "UDP ports can be received on"),
    Right("net", "connect_send_udp", 3, 10, "UDP ports can be sent to"),
    Right("flag", "no_new_privs", 4, 11, "no_new_privs has to be set beforehand", weaker=False),
)
NEWEST_ABI = max(right.abi for right in RIGHTS)


def rights(kind: Kind, *names: str, abi: int = NEWEST_ABI) -> int:
    """The mask of these rights, or of all of a kind, as far as `abi` has them. Raises KeyError for an unknown name."""
    table = {right.name: right for right in RIGHTS if right.kind == kind}
    chosen = [table[name] for name in names] if names else list(table.values())
    return sum(right.mask for right in chosen if right.abi <= abi)


_READ = rights("fs", "read_file", "read_dir")
_EXECUTE = _READ | rights("fs", "execute")
_CHANGE = rights(
    "fs",
    *("write_file", "truncate", "remove_dir", "remove_file", "refer"),
    *("make_dir", "make_reg", "make_sock", "make_fifo", "make_sym", "resolve_unix"),
)
_DEVICE = rights("fs", "read_file", "read_dir", "write_file", "truncate", "ioctl_dev")
_SOCKET = rights("fs", "resolve_unix")
FILE_RIGHTS = sum(right.mask for right in RIGHTS if right.kind == "fs" and right.of_files)
"""Rights that make sense for a path that is no directory; the kernel refuses the others there."""


_LAST_PORT = 65535


def _frozen(paths: Iterable[str]) -> frozenset[str]:
    return frozenset(paths)


@attrs.frozen(kw_only=True)
class LandlockRules:
    """What may still be done. Everything that is not listed is refused.

    Args:
        read: files, and everything below directories, may be read and listed.
        execute: read, and executed.
        write: read, changed, created, removed and moved; not executed, and no device is made.
        devices: read, written and controlled by ioctl(2).
        sockets: sockets of the host, by path, that may be connected to (ABI 9).
        optional: those of the paths above that need not exist.
        hidden: what lies below one of them and is not granted with it. Names are still listed; what is made beside them later
            is hidden, too, until the next launcher.
        ports_bind: TCP ports that may be listened on; None leaves listening alone, () refuses it.
        ports_connect: TCP ports that may be connected to; None and () as above.
        ports_reserved: ports that may be neither listened on nor connected to, while every other one may; where there are any,
            they take the place of the two lists.
        scopes: "abstract_unix_socket" and "signal": what is outside the domain is out of reach.
        log_refusals: have the kernel's audit log, where it is on, record refusals of commands (ABI 7).
    """

    read: tuple[str, ...] = ()
    execute: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
    optional: frozenset[str] = attrs.field(default=frozenset(), converter=_frozen)
    hidden: tuple[str, ...] = ()
    ports_bind: tuple[int, ...] | None = ()
    ports_connect: tuple[int, ...] | None = ()
    ports_reserved: tuple[int, ...] = ()
    scopes: tuple[str, ...] = ("abstract_unix_socket", "signal")
    log_refusals: bool = False

    def __attrs_post_init__(self) -> None:
        for port in (*(self.ports_bind or ()), *(self.ports_connect or ()), *self.ports_reserved):
            if not 0 <= port <= _LAST_PORT:
                raise ValueError(f"a port is a number from 0 to 65535, got {port}")


@attrs.frozen(kw_only=True)
class Ruleset:
    """The rules in the kernel's terms.

    Args:
        paths: (path, rights, whether it may be missing).
        hidden: paths that a rule about a directory above does not reach.
        ports: (port, rights).
        port_ranges: (first port, last port, rights of each).
        flags: of landlock_restrict_self(2).
    """

    handled_fs: int
    handled_net: int
    scoped: int
    flags: int = 0
    paths: tuple[tuple[str, int, bool], ...] = ()
    hidden: tuple[str, ...] = ()
    ports: tuple[tuple[int, int], ...] = ()
    port_ranges: tuple[tuple[int, int, int], ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """The argument of the launcher's step `restrict_files`, ready for JSON."""
        return {
            "handled_fs": self.handled_fs,
            "handled_net": self.handled_net,
            "scoped": self.scoped,
            "flags": self.flags,
            "file_rights": FILE_RIGHTS,
            "paths": [list(each) for each in self.paths],
            "hidden": list(self.hidden),
            "listing": rights("fs", "read_dir"),
            "ports": [list(each) for each in self.ports],
            "port_ranges": [list(each) for each in self.port_ranges],
        }


def compile_rules(rules: LandlockRules) -> Ruleset:
    """The rules for a kernel that has the newest ABI."""
    return Ruleset(
        handled_fs=rights("fs"),
        handled_net=_handled_net(rules),
        scoped=rights("scope", *rules.scopes) if rules.scopes else 0,
        flags=rights("flag", "log_new_exec_on") if rules.log_refusals else 0,
        paths=_paths(rules),
        hidden=rules.hidden,
        ports=() if rules.ports_reserved else _ports(rules),
        port_ranges=_around(rules.ports_reserved),
    )


def _handled_net(rules: LandlockRules) -> int:
    listening, connecting = rights("net", "bind_tcp", "bind_udp"), rights("net", "connect_tcp", "connect_send_udp")
    if rules.ports_reserved:
        return listening | connecting
    return (listening if rules.ports_bind is not None else 0) | (connecting if rules.ports_connect is not None else 0)


def _around(reserved: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    """Every port but these, with all rights: rules only grant, and a rule is about one port. Port 0 is "any that is free"."""
    if not reserved:
        return ()
    edges = (-1, *sorted(set(reserved)), _LAST_PORT + 1)
    gaps = ((before + 1, after - 1) for before, after in itertools.pairwise(edges))
    return tuple((first, last, rights("net")) for first, last in gaps if first <= last)


def _paths(rules: LandlockRules) -> tuple[tuple[str, int, bool], ...]:
    granted: dict[str, int] = {}
    for paths, mask in (
        (rules.read, _READ),
        (rules.execute, _EXECUTE),
        (rules.write, _READ | _CHANGE),
        (rules.devices, _DEVICE),
        (rules.sockets, _SOCKET),
    ):
        for path in paths:
            granted[path] = granted.get(path, 0) | mask
    return tuple((path, mask, path in rules.optional) for path, mask in granted.items())


def _ports(rules: LandlockRules) -> tuple[tuple[int, int], ...]:
    granted: dict[int, int] = {}
    for ports, name in ((rules.ports_bind, "bind_tcp"), (rules.ports_connect, "connect_tcp")):
        for port in ports or ():
            granted[port] = granted.get(port, 0) | rights("net", name)
    return tuple(sorted(granted.items()))


def left_open(abi: int) -> tuple[Right, ...]:
    """The rights without which Landlock of `abi` protects less than the newest."""
    return tuple(right for right in RIGHTS if right.abi > abi and right.weaker)


def downgrade(ruleset: Ruleset, abi: int) -> Ruleset:
    """The ruleset as a kernel with `abi` takes it (0 = no Landlock).

    Rules that grant nothing any more are dropped: the kernel refuses empty ones.
    """
    fs, net = rights("fs", abi=abi), rights("net", abi=abi)
    return attrs.evolve(
        ruleset,
        handled_fs=ruleset.handled_fs & fs,
        handled_net=ruleset.handled_net & net,
        scoped=ruleset.scoped & rights("scope", abi=abi),
        flags=ruleset.flags & rights("flag", abi=abi),
        paths=tuple((path, mask & fs, optional) for path, mask, optional in ruleset.paths if mask & fs),
        ports=tuple((port, mask & net) for port, mask in ruleset.ports if mask & net),
        port_ranges=tuple((first, last, mask & net) for first, last, mask in ruleset.port_ranges if mask & net),
    )

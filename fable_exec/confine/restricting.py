"""The launcher's two restrictions of itself, Landlock rules and a system-call filter, as steps for one mode. Pure.

A room apart because it is loaded for confined plans only: tables and assembler cost a start some 15 ms.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import attrs

from fable_exec.confine import filters
from fable_exec.confine.filters import Inet, Metadata, Unix
from fable_exec.confine.landlock import LandlockRules, compile_rules, downgrade
from fable_exec.confine.observing import observed, observer_of, why_not_observed
from fable_exec.confine.plan import LauncherMode, Step
from fable_exec.confine.programs import assemble
from fable_exec.confine.seccomp import Rule
from fable_exec.confine.support import Support
from fable_exec.confine.view import COMMAND_HOME, SYSTEM_DIRECTORIES, FileView
from fable_exec.policy.confinement import Confinement

__all__ = ["call_step", "file_step"]

_ABI_WITH_PORTS = 4
_ABI_WITH_SCOPES = 6
_SCOPES = ("abstract_unix_socket", "signal")
_HOST_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_OWN_DEVICES = (*_HOST_DEVICES, "/dev/tty", "/dev/pts", "/dev/ptmx")
_OWN_INET: dict[str, Inet] = {"off": "full", "ports": "tcp", "full": "full"}
"""With the network off there is a network of its own, where a socket reaches nobody but the command's own servers."""
_PLAIN_INET: dict[str, Inet] = {"off": "off", "ports": "tcp", "full": "full"}
_PLAIN_UNIX: dict[str, Unix] = {"strict": "pairs", "degradable": "pairs", "off": "all"}


def file_step(mode: LauncherMode, support: Support, confinement: Confinement, view: FileView) -> Step:
    """The Landlock rules for the files of `view` and the policy's ports, reduced to the kernel's ABI."""
    rules = _with_ports(_own_root(view) if mode != "plain" else _host_root(view), confinement)
    return ("restrict_files", downgrade(compile_rules(rules), support.landlock_abi).to_wire())


def call_step(
    mode: LauncherMode, support: Support, confinement: Confinement, view: FileView, *, observes: bool
) -> tuple[Step, dict[str, Any] | None]:
    """The filter of system calls for this mode, assembled for this machine; and what an observer of refusals is told, if any."""
    rules = _filter(mode, confinement, view)
    if not observes or why_not_observed(mode, support, confinement):
        return ("load_filter", _assembled(rules, support.machine)), None
    rules = observed(rules, mode, confinement)
    scoped = confinement.confines_files and support.landlock_abi >= _ABI_WITH_SCOPES
    ports_held = confinement.confines_files and support.landlock_abi >= _ABI_WITH_PORTS
    files = _judged_files(mode, confinement, view)
    observer = observer_of(rules, support.machine, mode, confinement, files, scoped=scoped, ports_held=ports_held)
    return ("load_filter", _assembled(rules, support.machine)), observer


@functools.lru_cache(maxsize=16)
def _assembled(rules: tuple[Rule, ...], machine: str) -> dict[str, Any]:
    """Kept, and not to be changed: every broker and every supervised job is planned by itself, and most of them alike."""
    return assemble(rules, machine).to_wire()


def _judged_files(mode: LauncherMode, confinement: Confinement, view: FileView) -> dict[str, Any] | None:
    """How the observer tells which files are out of reach."""
    if not confinement.confines_files:
        return None
    if mode != "plain":
        return {"mounted": True, "workspace_writable": view.writable, "stand_ins": list(view.stand_ins())}
    rules = _host_root(view)
    return {
        "mounted": False,
        "writable": [*rules.write, *rules.devices],
        "readable": [*rules.execute, *rules.devices],
        "hidden": list(rules.hidden),
    }


def _own_root(view: FileView) -> LandlockRules:
    """In a root of its own everything that exists may be read: /proc is another one in every slot, and no rule about it would be
    found on the way up. What may be changed is listed all the same, so that two layers must fail."""
    writable = ("/tmp", "/var/tmp", COMMAND_HOME, "/dev/shm", *_writable_workspace(view))
    return LandlockRules(execute=("/",), write=writable, devices=_OWN_DEVICES, optional=frozenset(_OWN_DEVICES), scopes=_SCOPES)


def _host_root(view: FileView) -> LandlockRules:
    readable = (*SYSTEM_DIRECTORIES, *view.runtime_paths, view.workspace, "/proc")
    writable = ("{private}/tmp", "{private}/home", *_writable_workspace(view))
    return LandlockRules(
        execute=(*readable, *writable),
        write=writable,
        devices=_HOST_DEVICES,
        optional=frozenset({*readable, *_HOST_DEVICES}),
        hidden=view.secrets,
        scopes=_SCOPES,
    )


def _writable_workspace(view: FileView) -> tuple[str, ...]:
    return (*view.writable_paths, *((view.workspace,) if view.writable else ()))


def _with_ports(rules: LandlockRules, confinement: Confinement) -> LandlockRules:
    """`rules` with those about ports: the policy's lists, or all but the reserved ones; None where nothing is said of ports."""
    if confinement.network == "ports":
        return attrs.evolve(rules, ports_bind=confinement.bind_ports, ports_connect=confinement.connect_ports)
    return attrs.evolve(rules, ports_bind=None, ports_connect=None, ports_reserved=confinement.reserved_ports)


def _inet(table: Mapping[str, Inet], confinement: Confinement) -> Inet:
    inet = table[confinement.network]
    return "guarded" if inet == "full" and confinement.reserved_ports else inet


def _filter(mode: LauncherMode, confinement: Confinement, view: FileView) -> tuple[Rule, ...]:
    if mode != "plain":
        enters, has_init = mode != "kept", mode != "namespace"
        inet = _inet(_OWN_INET, confinement)
        return filters.strict(inet=inet, unix="all", metadata="allow", enters_namespaces=enters, has_init=has_init)
    # Without mounts only the filter can keep a locked workspace's modes and times.
    metadata: Metadata = "allow" if view.writable else "deny"
    unix = _PLAIN_UNIX[confinement.mode("host_sockets")]
    return filters.plain(inet=_inet(_PLAIN_INET, confinement), unix=unix, metadata=metadata)

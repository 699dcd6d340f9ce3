"""What a launcher's means give, protection by protection: the states that every outcome reports. Pure.

A state is "active" only when nothing known gets around it; one reason says what is weaker otherwise. Where a strict protection is
not active, `refuse_unmet` refuses: best effort never looks like full.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import attrs

from fable_exec.confine.plan import LauncherMode, LaunchMode
from fable_exec.confine.remedies import remedy_in_full
from fable_exec.confine.resources import state_of
from fable_exec.confine.support import Support, explain_errno
from fable_exec.errors import ConfinementUnavailable
from fable_exec.outcome import Applied
from fable_exec.policy.confinement import PROTECTIONS, Confinement
from fable_exec.policy.values import Limits

__all__ = ["State", "applied_for", "holds_read_only", "refuse_unmet"]


@attrs.frozen
class State:
    """One protection's state before the policy's mode is put to it."""

    state: Literal["active", "degraded", "unavailable"]
    means: str
    reason: str = ""


def applied_for(
    mode: LauncherMode, support: Support, confinement: Confinement, limits: Limits, *, writable: bool
) -> tuple[Applied, ...]:
    """The states of all protections that are not off, in the order of PROTECTIONS."""
    states = _with_namespaces(mode, support, confinement) if mode != "plain" else _plain(support, confinement)
    states["resources"] = State(*state_of(mode, support, limits))
    if writable:
        states["workspace_writes"] = State("active", "unlocked by the administrator")
    return tuple(
        Applied(name, confinement.mode(name), states[name].state, states[name].means, states[name].reason)
        for name in PROTECTIONS
        if confinement.mode(name) != "off"
    )


def holds_read_only(applied: Iterable[Applied]) -> bool:
    """Whether the kernel keeps the workspace as it is for the whole tree of a command."""
    return any(each.protection == "workspace_writes" and each.state == "active" for each in applied)


def refuse_unmet(applied: Iterable[Applied], support: Support, launch: LaunchMode) -> None:
    """Refuse when a strict protection is not active.

    Raises:
        ConfinementUnavailable: names the first such protection, why it is not, and what to do.
    """
    for each in applied:
        if each.mode == "strict" and each.state != "active":
            raise ConfinementUnavailable(
                f'protection "{each.protection}" is strict but {each.state} on this host: {each.reason}. '
                f"{_what_to_do(remedy_in_full(each.protection, support, launch))}",
                protection=each.protection,
                reason=each.reason,
            )


def _what_to_do(remedy: str) -> str:
    mend = f"Mend the host ({remedy})" if remedy else "Mend the host"
    return f'{mend}; `fable-exec doctor` tells more. Or make the protection "degradable", or switch confinement off.'


def _with_namespaces(mode: LauncherMode, support: Support, confinement: Confinement) -> dict[str, State]:
    files = _layers("mount namespace", "Landlock", support.landlock_reason)
    own_proc = mode == "slots" or (mode == "kept" and support.own_proc == 0)
    return {
        "workspace_writes": files,
        "host_writes": files,
        "host_metadata": State("active", "read-only mounts"),
        "host_reads": files,
        "later_files": _LATER_FILES_PINNED,
        "network": _network(support, confinement, own_network=True),
        "host_sockets": _host_sockets(support, confinement),
        "other_processes": _OWN_PROC if own_proc else _SHARED_PROC,
        "whole_tree_end": State("active", "PID namespace"),
        "kernel_surface": _seccomp(support),
    }


def _plain(support: Support, confinement: Confinement) -> dict[str, State]:
    landlock = _only("Landlock", support.landlock_reason)
    seccomp = _filtered(support, confinement)
    no_namespaces = f"no namespaces: {explain_errno(support.user_namespaces) or 'plain mode was asked for'}"
    return {
        "workspace_writes": landlock,
        "host_writes": landlock,
        "host_metadata": State("unavailable", "", f"Landlock has no right for modes, times and owners; {no_namespaces}"),
        "host_reads": landlock,
        "later_files": _LATER_FILES_SWEPT,
        "network": _network(support, confinement, own_network=False),
        "host_sockets": seccomp if seccomp.state != "active" or _has_scopes(support, confinement) else _NO_SCOPES,
        "other_processes": _other_processes(support, confinement, no_namespaces),
        "whole_tree_end": _subreaper(seccomp, confinement),
        "kernel_surface": seccomp,
    }


_OWN_PROC = State("active", "PID namespace, own /proc")
_SHARED_PROC = State("degraded", "PID namespace", "commands of one launcher see each other in /proc")
_NO_SCOPES = State("degraded", "seccomp", "no Landlock scopes before ABI 6: abstract sockets by descriptor")
_ABI_WITH_PORTS = 4
_ABI_WITH_SCOPES = 6
_LATER_FILES_PINNED = State("active", "read-only mounts, sweep after each command")
_LATER_FILES_SWEPT = State("degraded", "sweep after each command", "what exists cannot be pinned without mounts")


def _subreaper(seccomp: State, confinement: Confinement) -> State:
    if seccomp.state == "active" and confinement.mode("kernel_surface") != "off":
        return State("active", "subreaper that seccomp protects")
    return State(
        "degraded", "subreaper", f"a command could end its own subreaper, {seccomp.reason or 'which no filter protects'}"
    )


def _other_processes(support: Support, confinement: Confinement, why: str) -> State:
    if confinement.mode("kernel_surface") == "off" or support.seccomp_reason:
        return State("unavailable", "", why)
    return State("degraded", "Landlock signal scope, seccomp", f"the host's /proc is visible; {why}")


def _filtered(support: Support, confinement: Confinement) -> State:
    """What stands on the filter that kernel_surface loads."""
    if confinement.mode("kernel_surface") == "off":
        return State("unavailable", "", "the filter of system calls comes with kernel_surface, which is off")
    return _seccomp(support)


def _has_scopes(support: Support, confinement: Confinement) -> bool:
    return support.landlock_abi >= _ABI_WITH_SCOPES and confinement.confines_files


def _host_sockets(support: Support, confinement: Confinement) -> State:
    """Sockets with a path are out of sight in a view of its own; abstract ones belong to the network namespace."""
    if not confinement.confines_files:
        return State("degraded", "", "sockets with a path are in sight where no protection of files is asked for")
    if confinement.network == "off" and confinement.mode("network") != "off":
        return State("active", "mount and network namespaces")
    if _has_scopes(support, confinement):
        return State("active", "mount namespace, Landlock scopes")
    return State("degraded", "mount namespace", "abstract sockets of the host's network need Landlock scopes, ABI 6")


def _layers(first: str, second: str, missing: str) -> State:
    """Two independent layers; with one alone a single fault is enough."""
    if missing:
        return State("degraded", first, f"one layer instead of two, {missing}")
    return State("active", f"{first}, {second}")


def _only(means: str, missing: str) -> State:
    return State("unavailable", "", missing) if missing else State("active", means)


def _seccomp(support: Support) -> State:
    return _only("seccomp", support.seccomp_reason)


def _network(support: Support, confinement: Confinement, *, own_network: bool) -> State:
    if confinement.network == "full" and not confinement.reserved_ports:
        return State("active", "the policy opens the whole network")
    if confinement.network == "off":
        return State("active", "network namespace") if own_network else _filtered(support, confinement)
    if not confinement.confines_files:
        return State("unavailable", "", "ports are Landlock's, which is used with the protections of files only")
    if _filtered(support, confinement).state != "active":
        return _filtered(support, confinement)  # Landlock's rules are about TCP; the filter refuses the other ways
    if support.landlock_abi < _ABI_WITH_PORTS:
        return State("unavailable", "", "Landlock before ABI 4 has no rules for TCP ports")
    return State("active", "Landlock TCP rules, seccomp")

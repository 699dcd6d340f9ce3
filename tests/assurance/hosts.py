"""Hosts of every strength, and policies for them."""

from __future__ import annotations

import errno
from typing import Any

import attrs

from fable_exec.confine import FileView, Plan, Support, compile_plan
from fable_exec.policy import PROTECTIONS, BrokerPolicy, Confinement, Protections

CAPABLE = Support(user_namespaces=0, root_namespaces=errno.EPERM, own_proc=0, own_pid_max=0, landlock_abi=7, machine="x86_64")
NO_LANDLOCK = attrs.evolve(CAPABLE, landlock_abi=0, landlock=errno.ENOSYS)
NO_NAMESPACES = attrs.evolve(CAPABLE, user_namespaces=errno.ENOSPC, own_proc=errno.EPERM)
NO_SECCOMP = attrs.evolve(CAPABLE, seccomp=errno.EINVAL)
NOTHING = attrs.evolve(NO_NAMESPACES, landlock_abi=0, landlock=errno.ENOSYS, seccomp=errno.EINVAL)

HOSTS: dict[str, Support] = {
    "all": CAPABLE,
    "no Landlock": NO_LANDLOCK,
    "no seccomp": NO_SECCOMP,
    "no namespaces": NO_NAMESPACES,
    "none": NOTHING,
}
DEGRADABLE = Confinement(protections=Protections(**dict.fromkeys(PROTECTIONS, "degradable")))  # type: ignore[arg-type]  # the word is a mode


def only(protection: str, **more: Any) -> Confinement:
    """Nothing but one protection, and that one strictly."""
    modes = {**dict.fromkeys(PROTECTIONS, "off"), protection: "strict"}
    return Confinement(protections=Protections(**modes), **more)  # type: ignore[arg-type]  # names and modes


def policy(**fields: Any) -> BrokerPolicy:
    """One that can be unlocked."""
    return BrokerPolicy(**{"workspace": "/srv", "write_token_digest": "a" * 64, **fields})


def plan(support: Support = CAPABLE, confinement: Confinement = DEGRADABLE, *, writable: bool = False) -> Plan:
    return compile_plan("auto", support, confinement, FileView(workspace="/srv", writable=writable))

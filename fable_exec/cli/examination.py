"""What holds on this host, piece by piece, as values: what `doctor` shows and prints.

An examination is a row of sections, each a function from what is asked for to findings. To examine something more, write such a
function and name it in SECTIONS; `doctor` needs no change.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import attrs

from fable_exec.cli.remedies import ability_remedy, protection_remedy
from fable_exec.confine import FileView, LaunchMode, Plan, Support, compile_plan, probe_host
from fable_exec.confine.support import explain_errno
from fable_exec.errors import ConfinementUnavailable
from fable_exec.policy import BrokerPolicy
from fable_exec.policy.confinement import Confinement

__all__ = ["SECTIONS", "Asked", "Finding", "Section", "examine"]


@attrs.frozen(kw_only=True)
class Finding:
    """One thing that was looked at.

    Args:
        mode: how much it is insisted on: "strict", "degradable", "off", or empty where nobody asks for it by itself.
        means: what holds it. reason: why it is not fully there. remedy: what to do about that.
    """

    name: str
    state: Literal["active", "degraded", "unavailable"] | str
    mode: str = ""
    means: str = ""
    reason: str = ""
    remedy: str = ""

    @property
    def unmet(self) -> bool:
        """Whether it is insisted on and does not hold."""
        return self.mode == "strict" and self.state != "active"


@attrs.frozen
class Section:
    """Findings of one kind. `name` is the member of the JSON object."""

    name: str
    findings: tuple[Finding, ...]


class Asked:
    """What is asked for, and what it needs to be judged, found out once when first needed."""

    def __init__(self, policy: BrokerPolicy | None = None) -> None:
        self.launch: LaunchMode = "auto" if policy is None else policy.launch

    @functools.cached_property
    def support(self) -> Support:
        """What the kernel let a process of ours do. Raises ConfinementUnavailable."""
        return probe_host()

    @functools.cached_property
    def plan(self) -> Plan:
        """How commands would be launched. Raises ConfinementUnavailable."""
        view = FileView(workspace="/workspace", writable=False)
        return compile_plan(self.launch, self.support, Confinement.off(), view)


def examine(asked: Asked) -> tuple[Section, ...]:
    """Every section. What cannot even be asked is a finding too, not an exception."""
    return tuple(Section(name, tuple(_found(look, asked))) for name, look in SECTIONS.items())


def _found(look: Callable[[Asked], Iterable[Finding]], asked: Asked) -> Iterator[Finding]:
    try:
        yield from look(asked)
    except ConfinementUnavailable as error:
        name = error.protection or "launcher"
        yield Finding(name=name, state="unavailable", mode="strict", reason=error.reason or str(error), remedy=_LAUNCH_REMEDY)


_LAUNCH_REMEDY = 'mend what is unavailable among the abilities, or set launch = "auto" in the policy'


def _abilities(asked: Asked) -> Iterator[Finding]:
    support = asked.support
    for name, means, number in _asked_of_kernel(support):
        state = "unavailable" if number else "active"
        remedy = ability_remedy(name, number)
        yield Finding(name=name, state=state, means="" if number else means, reason=explain_errno(number), remedy=remedy)


def _asked_of_kernel(support: Support) -> Iterator[tuple[str, str, int]]:
    """Name, means and errno of each ability."""
    by_root = support.root_namespaces == 0 and support.user_namespaces != 0
    yield "namespaces", "root" if by_root else "user namespaces", 0 if support.namespaces else support.user_namespaces
    yield "own_proc", "a /proc of its own", support.own_proc
    yield "seccomp", "a filter of system calls", support.seccomp
    yield "landlock", f"ABI {support.landlock_abi}", 0 if support.landlock_abi else support.landlock


def _protections(asked: Asked) -> Iterator[Finding]:
    for each in asked.plan.applied:
        yield Finding(
            name=each.protection,
            mode=each.mode,
            state=each.state,
            means=each.means,
            reason=each.reason,
            remedy="" if each.state == "active" else protection_remedy(each.protection, asked.support, asked.launch),
        )


SECTIONS: dict[str, Callable[[Asked], Iterable[Finding]]] = {"abilities": _abilities, "protections": _protections}
"""By name, in the order of the report."""

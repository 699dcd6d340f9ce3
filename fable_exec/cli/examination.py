"""What holds on this host, piece by piece, as values: what `doctor` shows and prints.

An examination is a row of sections, each a function from what is asked for to findings. To examine something more, write such a
function and name it in SECTIONS; `doctor` needs no change.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

import attrs

from fable_exec.broker.confined import ConfinedCommands
from fable_exec.confine import LaunchMode, Support, probe_host
from fable_exec.confine.landlock import left_open
from fable_exec.confine.remedies import ability_remedy, protection_remedy
from fable_exec.confine.support import explain_errno
from fable_exec.errors import ConfinementUnavailable, PolicyError
from fable_exec.executables import resolve_executables
from fable_exec.laterfiles import contents_of, standard_place
from fable_exec.outcome import Applied
from fable_exec.pathguard import Workspace
from fable_exec.policy import PROTECTIONS, BrokerPolicy, Confinement, Limits, Protections
from fable_exec.policy.fields import meaning_of

__all__ = ["SECTIONS", "Asked", "Finding", "Section", "examine"]


@attrs.frozen(kw_only=True)
class Finding:
    """One thing that was looked at.

    Args:
        what: what it is, in a sentence.
        state: "active", "degraded" or "unavailable".
        mode: how much it is insisted on: "strict", "degradable", "off", or empty where nobody asks for it by itself.
        means: what holds it. reason: why it is not fully there. remedy: what to do about that.
    """

    name: str
    what: str
    state: str
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
    """Findings of one kind. `name` is the member of the JSON object, `title` says to people what they are about."""

    name: str
    title: str
    findings: tuple[Finding, ...]


class Asked:
    """What is asked for, and what it needs to be judged, found out once when first needed.

    Args:
        policy: whose wishes count. confinement: the same, instead of the policy's; None is the policy's, or the default policy's.
    """

    def __init__(self, policy: BrokerPolicy | None = None, confinement: Confinement | None = None) -> None:
        self.launch: LaunchMode = "auto" if policy is None else policy.launch
        self.policy = policy
        self.workspace = "" if policy is None else str(policy.workspace)
        self._limits = Limits() if policy is None else policy.limits
        self._confinement = confinement or (Confinement() if policy is None else policy.confinement)

    @property
    def network(self) -> str:
        """What commands are to have of the network."""
        return self._confinement.network

    @property
    def off(self) -> tuple[str, ...]:
        """The protections that nobody asks for."""
        return tuple(name for name in PROTECTIONS if self._confinement.mode(name) == "off")

    @functools.cached_property
    def support(self) -> Support:
        """What the kernel let a process of ours do. Raises ConfinementUnavailable."""
        return probe_host()

    @functools.cached_property
    def applied(self) -> tuple[Applied, ...]:
        """What holds for commands, proved by a canary in a workspace made for it. Raises ConfinementUnavailable."""
        with tempfile.TemporaryDirectory(prefix="fable-exec-doctor-") as scratch:
            os.chmod(scratch, 0o700)  # whatever our umask took
            policy = BrokerPolicy(workspace=scratch, launch=self.launch, confinement=self._confinement, limits=self._limits)
            with Workspace.open(policy.workspace) as workspace:
                commands = ConfinedCommands(policy, workspace, policy.confinement.runtime_read_paths)
                try:
                    return _where_it_matters(commands.applied(read_only=True), commands.applied(read_only=False))
                finally:
                    commands.close()


def _where_it_matters(locked: tuple[Applied, ...], unlocked: tuple[Applied, ...]) -> tuple[Applied, ...]:
    """States while locked; files that run later matter, and are looked after, only while unlocked."""
    later = {each.protection: each for each in unlocked if each.protection == "later_files"}
    return tuple(later.get(each.protection, each) for each in locked)


def examine(asked: Asked) -> tuple[Section, ...]:
    """Every section. What cannot even be asked is a finding too, not an exception."""
    return tuple(Section(name, title, tuple(_found(look, asked))) for name, (title, look) in SECTIONS.items())


def _found(look: Callable[[Asked], Iterable[Finding]], asked: Asked) -> Iterator[Finding]:
    try:
        yield from look(asked)
    except ConfinementUnavailable as error:
        yield Finding(
            name=error.protection or "launcher",
            what=_MEANINGS.get(error.protection, "The program that starts commands and ends them."),
            state="unavailable",
            mode="strict",
            reason=error.reason or str(error),
            remedy=_LAUNCH_REMEDY,
        )


_LAUNCH_REMEDY = 'mend what is unavailable among the abilities, or set launch = "auto" in the policy'
_MEANINGS = {field.name: meaning_of(field) for field in attrs.fields(Protections)}


def _abilities(asked: Asked) -> Iterator[Finding]:
    support = asked.support
    for name, means, number in _asked_of_kernel(support):
        reason, remedy = explain_errno(number), ability_remedy(name, number)
        if name == "own_proc" and number and not support.namespaces:
            reason, remedy = "it is had in namespaces only", "mend namespaces first"
        yield Finding(
            name=name,
            what=_ABILITIES[name],
            state="unavailable" if number else "active",
            means="" if number else means,
            reason=reason or (_left_open(support) if name == "landlock" else ""),
            remedy=remedy,
        )


_ABILITIES = {
    "namespaces": "Gives each command a view of files, processes and network of its own; most protections stand on it.",
    "own_proc": "Gives each command a /proc that shows its own processes only.",
    "seccomp": "Refuses system calls that ordinary programs do not need.",
    "notifications": "Lets results tell what was refused (`denials`); it protects nothing by itself.",
    "landlock": "Holds rules about files and ports: a second layer beside namespaces, the only one where there are none.",
}


def _left_open(support: Support) -> str:
    """What Landlock alone leaves open here and newer kernels close: it matters where there are no namespaces."""
    found = [f"{right.without} (closed from ABI {right.abi})" for right in left_open(support.landlock_abi)]
    where = "alone, without the namespaces that are here, it would leave open" if support.namespaces else "it leaves open"
    return f"{where}: {', '.join(found)}" if found else ""


def _asked_of_kernel(support: Support) -> Iterator[tuple[str, str, int]]:
    """Name, means and errno of each ability."""
    by_root = support.root_namespaces == 0 and support.user_namespaces != 0
    yield "namespaces", "root" if by_root else "user namespaces", 0 if support.namespaces else support.user_namespaces
    yield "own_proc", "", support.own_proc
    yield "seccomp", "", support.seccomp
    yield "notifications", "", support.notify
    yield "landlock", f"ABI {support.landlock_abi}", 0 if support.landlock_abi else support.landlock


def _protections(asked: Asked) -> Iterator[Finding]:
    for each in asked.applied:
        yield Finding(
            name=each.protection,
            what=_MEANINGS[each.protection] + (f' It says "{asked.network}".' if each.protection == "network" else ""),
            mode=each.mode,
            state=each.state,
            means=each.means,
            reason=each.reason,
            remedy="" if each.state == "active" else protection_remedy(each.protection, asked.support, asked.launch),
        )


def _programs(asked: Asked) -> Iterator[Finding]:
    """Whether the policy allows a program that is here; without one no broker starts."""
    if asked.policy is None:
        return
    try:
        with closing(resolve_executables(asked.policy, os.environ)) as found:
            missing = ", ".join(found.unresolved)
            reason = f"not found: {missing}" if missing else ""
            yield Finding(name="programs", what=_PROGRAMS, state="active", means=", ".join(found.names), reason=reason)
    except PolicyError as error:
        reason = "; ".join(text for _, text in error.faults)
        remedy = "install one, or name it by its absolute path in allowed_executables"
        yield Finding(name="programs", what=_PROGRAMS, state="unavailable", mode="strict", reason=reason, remedy=remedy)


_PROGRAMS = "What the policy lets commands be; a broker needs one of them."


def _kept(asked: Asked) -> Iterator[Finding]:
    """Where planted files go, and how much is there: for a person to look at, and to remove."""
    path = standard_place(asked.workspace or os.devnull)
    try:
        found = contents_of(path)
    except OSError as error:
        reason = f"{path}: {error.strerror}"
        remedy = "give it to this user, or set XDG_STATE_HOME"
        yield Finding(name="quarantine", what=_QUARANTINE, state="degraded", reason=reason, remedy=remedy)
        return
    means = f"{path}: {found.items} items, {found.size_bytes} bytes"
    yield Finding(name="quarantine", what=_QUARANTINE, state="active", means=means)


_QUARANTINE = "Where files go that commands planted to run later. Look at them, then remove them; when it is full the oldest go."

SECTIONS: dict[str, tuple[str, Callable[[Asked], Iterable[Finding]]]] = {
    "abilities": ("what this system offers for confining commands", _abilities),
    "protections": (
        "what holds for commands, proved by one that tried to break out; without a strict one nothing runs",
        _protections,
    ),
    "programs": ("what may run here by the policy", _programs),
    "kept": ("what is left on this disk", _kept),
}
"""By name, in the order of the report, with a title for people."""

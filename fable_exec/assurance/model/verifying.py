"""The invariants, built in and the policy's own, and whether they hold; where one does not, the path that breaks it. Pure.

What is switched off is not claimed, and what can be had in part on this host only where the policy insists on it.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator
from enum import Enum
from typing import Any, TypeVar

import attrs

from fable_exec.assurance.kripke import atoms_of, check, parse_formula
from fable_exec.assurance.model.brokers import ATOMS, PROTECTION_ATOMS, BrokerWorld, Phase, explore_broker
from fable_exec.assurance.model.exploring import Model, Step
from fable_exec.assurance.model.host import Host
from fable_exec.assurance.model.reach import insisted_ways
from fable_exec.confine import Support
from fable_exec.decision import is_whole
from fable_exec.errors import PolicyError
from fable_exec.policy import BrokerPolicy
from fable_exec.writelock import Unlocked

__all__ = [
    "BROKER_INVARIANTS",
    "SUPERVISOR_INVARIANTS",
    "Finding",
    "Invariant",
    "Verdict",
    "Verification",
    "verified",
    "verify_policy",
    "verify_supervisor",
]

World = TypeVar("World", bound=Hashable)


@attrs.frozen(kw_only=True)
class Invariant:
    """A formula that must be true from the start. `protection`: the one that claims it; "" is claimed always."""

    name: str
    formula: str
    meaning: str
    protection: str = ""


BROKER_INVARIANTS = (
    Invariant(
        name="locked-writes",
        formula="AG(writes_locked & admitted & !interpreter_running -> !workspace_writable)",
        meaning="what is let through while writes are locked changes nothing in the workspace",
    ),
    Invariant(
        name="locked-interpreters",
        formula="AG((writes_locked | unlocked_for_paths) & admitted & interpreter_running -> kernel_readonly)",
        meaning="an interpreter is let run while writes are locked only where the kernel keeps the workspace",
    ),
    Invariant(
        name="scoped-unlock",
        formula="AG(unlocked_for_paths & admitted & !within_scope & !interpreter_running -> !workspace_writable)",
        meaning="an unlock for some paths lets nothing change what lies elsewhere",
    ),
    Invariant(
        name="unlock-authenticated",
        formula="AG(unlocked -> admin_authenticated)",
        meaning="only the administrator's token unlocks writes",
    ),
    Invariant(name="running-ends", formula="AG(running -> AF idle)", meaning="every command comes to an end"),
    Invariant(
        name="listed-only",
        formula="AG(running -> listed)",
        meaning="only what is on the allow-list runs, and only as the file that was listed",
    ),
    *(
        Invariant(
            name=protection.replace("_", "-"), formula=f"AG !{atom}", meaning=f"never: {ATOMS[atom]}", protection=protection
        )
        for protection, atom in PROTECTION_ATOMS.items()
    ),
)

SUPERVISOR_INVARIANTS = (
    Invariant(name="terminal-reached", formula="AG AF is_exited", meaning="every execution comes to an end, and it is recorded"),
    Invariant(name="terminal-final", formula="AG(is_exited -> AG is_exited)", meaning="nothing leaves the end"),
    Invariant(
        name="signal-identity",
        formula="AG(signalling -> identity_known)",
        meaning="no signal is sent to a job that was not made, or has been reaped",
    ),
    Invariant(
        name="recorded-first",
        formula="AG(gate_open -> recorded_running)",
        meaning="a job runs only when its state says, durably, who it is",
    ),
    Invariant(
        name="one-outcome",
        formula="AG((outcome_recorded -> is_exited) & (is_exited -> outcome_recorded))",
        meaning="the outcome is written with the end, and not before",
    ),
    Invariant(
        name="proved-restart",
        formula="AG(is_restarting -> nothing_left)",
        meaning="a job is started again only when a proof says that nothing is left of it",
    ),
)


class Verdict(Enum):
    """What came of an invariant. The value is the word of reports."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_CLAIMED = "not claimed"


@attrs.frozen(kw_only=True)
class Finding:
    """One invariant and what came of it.

    Args:
        reason: why it is not claimed, or, where no path says it, why it fails.
        path: how it is broken, from the start.
        goes_round: the path goes on for ever, from a world that it has passed.
    """

    name: str
    formula: str
    meaning: str
    verdict: Verdict
    reason: str = ""
    path: tuple[Step, ...] = ()
    goes_round: bool = False

    def to_json(self) -> dict[str, Any]:
        """The members of its object in reports."""
        return {
            "name": self.name,
            "formula": self.formula,
            "meaning": self.meaning,
            "verdict": self.verdict.value,
            "reason": self.reason,
            "counterexample": [{"event": step.event, "labels": list(step.labels)} for step in self.path],
            "goes_round": self.goes_round,
        }

    def lines(self) -> Iterator[str]:
        """The path to read, a line a step; what is true is told where it has changed."""
        before: frozenset[str] = frozenset()
        for number, step in enumerate(self.path):
            now = frozenset(step.labels)
            changes = [*(f"+{each}" for each in sorted(now - before)), *(f"-{each}" for each in sorted(before - now))]
            yield f"{number}. {step.event or 'at the start'}{': ' if changes else ''}{' '.join(changes)}"
            before = now
        if self.goes_round:
            yield "   and so on for ever"


@attrs.frozen(kw_only=True)
class Verification:
    """What was found about one policy on one host.

    Args:
        warnings: what a formula of the policy asks for and nothing can ever be.
        covered: the ways in which the checked model lets a command start.
    """

    policy_digest: str
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...] = ()
    covered: frozenset[tuple[str, bool, bool]] = attrs.field(default=frozenset(), repr=False)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """What does not hold."""
        return tuple(each for each in self.findings if each.verdict is Verdict.FAILS)

    @property
    def holds(self) -> bool:
        """Whether nothing fails."""
        return not self.failures

    def require(self) -> None:
        """Nothing, where all holds.

        Raises:
            PolicyError: a fault for each invariant that fails, with the path that breaks it.
        """
        if self.failures:
            raise PolicyError.of(
                [("assurance", _told(each)) for each in self.failures], "the policy does not keep what it promises"
            )

    def covers(self, unlocked: Unlocked | None, *, read_only: bool, interprets: bool) -> bool:
        """Whether a command that is let through like this starts in a world that was checked. Costs a microsecond."""
        return (_kind_of(unlocked), read_only, interprets) in self.covered


def _kind_of(unlocked: Unlocked | None) -> str:
    if unlocked is None:
        return "locked"
    return "whole" if is_whole(unlocked.scope) else "paths"


def _told(finding: Finding) -> str:
    path = "; ".join(line.strip() for line in finding.lines())
    return f"{finding.name} fails ({finding.formula}: {finding.meaning}): {finding.reason or path}"


@attrs.frozen
class _Asked:
    """A question, told from others by the digest alone: that is what a policy is named by."""

    digest: str
    support: Support
    runtime_paths: tuple[str, ...]
    policy: BrokerPolicy = attrs.field(eq=False)


@functools.lru_cache(maxsize=16)
def _answered(asked: _Asked) -> Verification:
    return verify_policy(asked.policy, asked.support, asked.runtime_paths)


def verified(policy: BrokerPolicy, support: Support, runtime_paths: tuple[str, ...] = ()) -> Verification:
    """As `verify_policy`, kept by the policy's digest and the host: the second time costs a microsecond."""
    return _answered(_Asked(policy.digest, support, runtime_paths, policy))


def verify_policy(policy: BrokerPolicy, support: Support, runtime_paths: tuple[str, ...] = ()) -> Verification:
    """Check the built-in invariants and the policy's own formulas for a broker under `policy` on a host with `support`.

    Args:
        runtime_paths: what commands may read and execute besides the system directories and what the policy lists.

    Raises:
        ConfinementUnavailable: the policy asks for a launch mode that the host does not have.
    """
    host = Host(policy, support, runtime_paths)
    model = explore_broker(host)
    built_in = (_finding(model, each, _why_not_claimed(each, host)) for each in BROKER_INVARIANTS)
    own = [_of_policy(index, formula) for index, formula in enumerate(policy.assurance.formulas)]
    return Verification(
        policy_digest=policy.digest,
        findings=(*built_in, *(_finding(model, each) for each in own), _brittleness(host)),
        warnings=tuple(_warnings(own)),
        covered=frozenset(_covered(model)),
    )


def verify_supervisor() -> tuple[Finding, ...]:
    """Check the built-in invariants of supervised executions; they depend on no policy and no host."""
    from fable_exec.assurance.model.supervisors import explore_supervisor  # no broker pays for it with its first command

    model = explore_supervisor()
    return tuple(_finding(model, each) for each in SUPERVISOR_INVARIANTS)


def _finding(model: Model[World], invariant: Invariant, why_not_claimed: str = "") -> Finding:
    holds = Finding(name=invariant.name, formula=invariant.formula, meaning=invariant.meaning, verdict=Verdict.HOLDS)
    if why_not_claimed:
        return attrs.evolve(holds, verdict=Verdict.NOT_CLAIMED, reason=why_not_claimed)
    path = check(model.structure, invariant.formula).counterexample(model.initial)
    if path is None:
        return holds
    return attrs.evolve(holds, verdict=Verdict.FAILS, path=model.steps(path), goes_round=path[-1] in path[:-1])


def _why_not_claimed(invariant: Invariant, host: Host) -> str:
    protection = invariant.protection
    if not protection:
        return ""
    mode = host.policy.confinement.mode(protection)
    if mode == "off":
        return f"confinement.protections.{protection} is off"
    if protection == "network" and host.policy.confinement.network == "full":
        return "the policy opens the whole network"
    if not host.runs(read_only=True) and not host.runs(read_only=False):
        return "" if mode == "strict" else "nothing runs on this host: a strict protection cannot be had"
    state = host.state_of(protection)
    if mode == "degradable" and state != "active":
        return f"confinement.protections.{protection} is degradable, and {state} on this host"
    return ""


def _of_policy(index: int, formula: str) -> Invariant:
    return Invariant(name=f"assurance.formulas[{index}]", formula=formula, meaning="a formula of the policy")


def _warnings(own: list[Invariant]) -> Iterator[str]:
    for each in own:
        for name in sorted(atoms_of(parse_formula(each.formula)) - ATOMS.keys()):
            yield f"{each.name} asks for {name}, which is true of no world"


def _brittleness(host: Host) -> Finding:
    """Whether nothing that is strictly protected is as brittle as the policy's bound says."""
    most = host.policy.assurance.max_brittleness
    holds = Finding(
        name="max-brittleness",
        formula=f"brittleness < {most:g}",
        meaning="enough layers stand before what is strictly protected",
        verdict=Verdict.HOLDS,
    )
    for read_only in (True, False):
        if not host.runs(read_only=read_only):
            continue
        for way in insisted_ways(host.policy, host.radius(read_only=read_only), writable=not read_only):
            if way.brittleness >= most:
                layers = ", ".join(layer.value for layer in way.layers) or "none"
                reason = (
                    f"to {way.mechanism} ({way.asset.value}) has a brittleness of {way.brittleness:.2f} while writes are "
                    f"{'locked' if read_only else 'unlocked'}; layers before it: {layers}"
                )
                return attrs.evolve(holds, verdict=Verdict.FAILS, reason=reason)
    return holds


def _covered(model: Model[BrokerWorld]) -> Iterator[tuple[str, bool, bool]]:
    for world in model.structure.worlds:
        if world.phase is Phase.STARTED and world.command is not None:
            yield _kind_of(world.lock.unlocked), world.command.read_only, world.command.act.interprets

"""What it costs to prove a policy, to look a start up in what was proved, and to check formulas over large structures."""

from __future__ import annotations

import functools
import random

from benchmarks.figure import MICROSECONDS, MILLISECONDS, Figure, Unit, at_most
from benchmarks.measuring import Contestant, interleaved, timed
from benchmarks.setting import Setting
from fable_exec import BrokerPolicy
from fable_exec.assurance.kripke import KripkeStructure, check
from fable_exec.assurance.model import verify_policy, verify_supervisor
from fable_exec.broker.gate import Gate
from fable_exec.confine import probe_host

FORMULA = "AG(p -> AF q) | EG p & EX q | AX r & E[p U r] | A[p U q] & EF (p & AG EG r)"
OPERATORS = 10  # of time; those of logic come on top
SIZES = (1_000, 10_000, 100_000)
NEAR = 50
MOST_SECONDS = 5.0
MOST_VERIFY_SECONDS = 0.05
MOST_LOOK_UP_SECONDS = 20e-6


def measure(setting: Setting) -> list[Figure]:
    return [*_verifying(setting), _looking_up(setting), *_checking(setting)]


def _verifying(setting: Setting) -> list[Figure]:
    policy, support = BrokerPolicy(workspace=setting.workspace()), probe_host()
    contestants = [timed("policy", lambda: verify_policy(policy, support)), timed("supervisor", verify_supervisor)]
    found = interleaved(contestants, setting.rounds(30))
    return [
        Figure(
            key="assurance.verify",
            title="the default policy verified, not kept from before",
            unit=MILLISECONDS,
            ours=found["policy"],
            target=at_most(MOST_VERIFY_SECONDS),
        ),
        Figure(
            key="assurance.supervisor",
            title="the table of supervised executions verified",
            unit=MILLISECONDS,
            ours=found["supervisor"],
        ),
    ]


class _Unchecked(Gate):
    """The same gate without the look-up."""

    def __init__(self, gate: Gate) -> None:
        vars(self).update(vars(gate))

    def _require_checked(self, *start: object) -> None:
        pass


def _looking_up(setting: Setting) -> Figure:
    """What it adds to the decision on a command, which execute_command makes before it starts one."""
    with setting.broker() as broker:
        broker.execute_command(["true"])  # what comes before the first command is proved with it
        work, _, _ = broker.command_parts
        executable, cwd = work.decide(["true"], work.directory(None)).executable, work.directory(None)
        gates = {"looked up": work._gate, "not looked up": _Unchecked(work._gate)}
        contestants = [
            timed(name, functools.partial(gate.command, ["true"], executable, cwd), repeats=200) for name, gate in gates.items()
        ]
        found = interleaved(contestants, setting.rounds(300))
    return Figure(
        key="assurance.look_up",
        title="a command's start looked up in what was verified, within execute_command",
        unit=MICROSECONDS,
        ours=found["looked up"].minus(found["not looked up"]),
        target=at_most(MOST_LOOK_UP_SECONDS),
    )


def _checking(setting: Setting) -> list[Figure]:
    """Every size by itself: the same time for a world and an operator is linear growth."""
    sizes = {size: setting.size(size, least=100) for size in SIZES}
    contestants: list[Contestant] = []
    for size, worlds in sizes.items():
        structure = _random_structure(worlds)
        contestants.append(timed(str(size), lambda structure=structure: check(structure, FORMULA)))  # type: ignore[misc]  # a lambda with defaults has no type
    found = interleaved(contestants, setting.rounds(7), warm_up=1)
    return [
        Figure(
            key=f"assurance.check.{size // 1000}k",
            title=f"{OPERATORS} operators over {size // 1000} 000 worlds",
            unit=Unit("ns a world and operator", 1e9 / (sizes[size] * OPERATORS)),
            ours=found[str(size)],
            target=at_most(MOST_SECONDS) if size == max(SIZES) else None,
        )
        for size in SIZES
    ]


def _random_structure(worlds: int) -> KripkeStructure[int]:
    """Three next worlds each, not far away, as what is explored has them; three labels by chance; the same every time."""
    chance = random.Random(worlds)
    labels = {world: [name for name in "pqr" if chance.random() < 0.5] for world in range(worlds)}
    transitions = {world: [(world + chance.randint(-NEAR, NEAR)) % worlds for _ in range(3)] for world in range(worlds)}
    return KripkeStructure(range(worlds), labels, transitions)

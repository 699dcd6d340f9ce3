"""What the manual says about assurance is what the code says, and what the attempts at breaking out have found."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fable_exec.assurance.model import ATOMS, BROKER_INVARIANTS, SUPERVISOR_ATOMS, SUPERVISOR_INVARIANTS, Asset, blast_radius
from fable_exec.confine import FileView, Support, compile_plan
from fable_exec.policy import Confinement
from tests.assurance import hosts
from tests.assurance.tables import reach_table, ways_table

PROJECT = Path(__file__).resolve().parents[2]
EXPLANATION = PROJECT / "docs" / "explanation" / "assurance.md"
REFERENCE = PROJECT / "docs" / "reference" / "assurance.md"


@pytest.mark.parametrize("name, table", [("reach", reach_table), ("ways", ways_table)])
def test_the_tables_are_the_generated_ones(name: str, table: Callable[[], str]) -> None:
    """FABLE_EXEC_WRITE_GOLDEN=1 writes them anew."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- end -->)", re.DOTALL)
    text = EXPLANATION.read_text()
    if os.environ.get("FABLE_EXEC_WRITE_GOLDEN"):
        EXPLANATION.write_text(pattern.sub(lambda found: found[1] + table() + found[2], text, count=1))
    assert f"<!-- {name} -->\n{table()}\n<!-- end -->" in EXPLANATION.read_text()


def test_the_reference_lists_every_invariant_with_its_formula_and_every_atom() -> None:
    text = REFERENCE.read_text()
    for each in (*BROKER_INVARIANTS, *SUPERVISOR_INVARIANTS):
        formula = each.formula.replace("|", "\\|")
        assert f"| `{each.name}` | `{formula}` | {each.meaning} |" in text, each.name
    for atom, meaning in (*ATOMS.items(), *SUPERVISOR_ATOMS.items()):
        assert f"| `{atom}` | {meaning} |" in text, atom


def test_every_example_of_the_reference_does_what_it_asserts() -> None:
    examples = re.findall(r"^```python\n(.*?)^```$", REFERENCE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) >= 3
    for example in examples:
        assert "assert " in example
        exec(example, {})


# The attempts at breaking out, as `make escapes` last found them.

FOUND = json.loads((PROJECT / "benchmarks" / "escapes" / "results.json").read_text())["found"]
STRONG, WEAK = hosts.CAPABLE, hosts.NO_NAMESPACES
SYSTEMS: dict[str, Support] = {
    "root, slots": STRONG,
    "root, namespace": STRONG,
    "root of the machine, slots": STRONG,
    "user, slots": STRONG,
    "user, namespace": STRONG,
    "root, plain": WEAK,
    "user, no user namespaces": WEAK,
}
GROUPS = {
    "locked": {"write a file", "change modes and times"},
    "outside writes": {"write a user's file", "write a system file", "write a start-up file outside"},
    "outside metadata": {"change modes, times and owners"},
    "secrets": {"read a user's key", "read a secret in /etc", "read the environment of other processes"},
    "names alone": {"see names and sizes"},
    "loopback ports of the host": {"connect by TCP"},
    "UDP, raw, packet": {"send datagrams"},
    "sockets of the host": {"connect to a socket with a path", "connect to an abstract socket"},
    "/proc of others": {"see them in /proc"},
    "signals": {"signal them"},
    "memory and descriptors of others": {"trace them"},
    "limits and scheduling of others": {"signal them"},
    "later": {"change a hook in the workspace", "plant a hook in the workspace"},
    "kernel interfaces": {"ask for io_uring"},
    "namespaces": {"make a user namespace"},
}
"""Which ways the attempts of a group go."""
NAMES_ALONE = {"secrets: names of the system's keys", "secrets: size and times by stat"}
"""These go for what is about a file, not for what is in it."""


def group_of(attempt: str) -> str:
    return "names alone" if attempt in NAMES_ALONE else attempt.partition(":")[0]


def open_ways(support: Support) -> set[str]:
    """The mechanisms that no layer cuts: while locked those to the workspace, while unlocked all others."""
    found = set()
    for writable in (False, True):
        plan = compile_plan("auto", support, Confinement(), FileView(workspace="/srv", writable=writable), insist=False)
        ways = blast_radius(plan).ways
        assert {way.mechanism for way in ways} == set().union(*GROUPS.values())
        found |= {way.mechanism for way in ways if not way.layers and (way.asset is Asset.WORKSPACE) != writable}
    return found


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_is_called_unreachable_was_reached_by_no_attempt(system: str) -> None:
    open_here = open_ways(SYSTEMS[system])
    assert {group_of(attempt) for attempt in FOUND[system]} >= GROUPS.keys()
    for attempt, result in FOUND[system].items():
        if group_of(attempt) in GROUPS and not GROUPS[group_of(attempt)] & open_here:
            assert result == "none", attempt


@pytest.mark.parametrize("system", [name for name, support in SYSTEMS.items() if support is WEAK])
def test_what_is_called_reachable_was_reached(system: str) -> None:
    reached = {group_of(attempt) for attempt, result in FOUND[system].items() if result == "effect"} & GROUPS.keys()
    assert reached == {group for group, ways in GROUPS.items() if ways & open_ways(SYSTEMS[system])}

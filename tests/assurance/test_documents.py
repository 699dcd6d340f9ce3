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
    "locked": Asset.WORKSPACE,
    "outside writes": Asset.HOST_FILES,
    "outside metadata": Asset.HOST_METADATA,
    "secrets": Asset.CREDENTIALS,
    "loopback ports of the host": Asset.NETWORK,
    "UDP, raw, packet": Asset.NETWORK,
    "sockets of the host": Asset.HOST_SOCKETS,
    "/proc of others": Asset.OTHER_PROCESSES,
    "signals": Asset.OTHER_PROCESSES,
    "memory and descriptors of others": Asset.OTHER_PROCESSES,
    "limits and scheduling of others": Asset.OTHER_PROCESSES,
    "later": Asset.LATER_FILES,
    "kernel interfaces": Asset.KERNEL,
    "namespaces": Asset.KERNEL,
}
NAMES_ALONE = {"secrets: names of the system's keys", "secrets: size and times by stat"}
"""These go for what is about a file, not for what is in it."""


def asset_of(attempt: str) -> Asset | None:
    return Asset.HOST_METADATA if attempt in NAMES_ALONE else GROUPS.get(attempt.partition(":")[0])


def reachable(support: Support, *, writable: bool) -> set[Asset]:
    plan = compile_plan("auto", support, Confinement(), FileView(workspace="/srv", writable=writable), insist=False)
    return {each.asset for each in blast_radius(plan).assets if each.reachable}


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_is_called_unreachable_was_reached_by_no_attempt(system: str) -> None:
    support = SYSTEMS[system]
    unlocked, locked = reachable(support, writable=True), reachable(support, writable=False)
    attempts = [(name, asset_of(name)) for name in FOUND[system]]
    assert {asset for _, asset in attempts} >= set(Asset)
    for name, asset in attempts:
        if asset is not None and asset not in (locked if asset is Asset.WORKSPACE else unlocked):
            assert FOUND[system][name] == "none", name


@pytest.mark.parametrize("system", [name for name, support in SYSTEMS.items() if support is WEAK])
def test_what_is_called_reachable_was_reached(system: str) -> None:
    """The workspace besides, which a command may write while writes are unlocked: no attempt goes for that."""
    reached = {asset_of(name) for name, result in FOUND[system].items() if result == "effect"} - {None}
    assert reachable(SYSTEMS[system], writable=True) == reached | {Asset.WORKSPACE}

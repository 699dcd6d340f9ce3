"""The checker beside a public one, pyModelChecking, on random structures and formulas (`make test-verifiers`)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from fable_exec.assurance import kripke as k
from fable_exec.assurance.kripke.formulas import parts_of
from tests.assurance.structures import FORMULAS, few, structures

pytestmark = [
    pytest.mark.requires_ability("pymodelchecking"),
    pytest.mark.filterwarnings("ignore:module 'sre_:DeprecationWarning"),  # what its parser imports
]

THEIR_NAMES = {k.Not: "Not", k.And: "And", k.Or: "Or", k.Implies: "Imply"}


def translated(formula: k.Formula) -> Any:
    """`formula` as pyModelChecking writes it; the operators on paths have the same names there."""
    from pyModelChecking import CTL

    match formula:
        case k.Atom(name):
            return CTL.AtomicProposition(name)
        case k.Constant(value):
            return CTL.Bool(value)
    theirs = getattr(CTL, THEIR_NAMES.get(type(formula), type(formula).__name__))
    return theirs(*map(translated, parts_of(formula)))


def agrees(structure: k.KripkeStructure[int], formula: k.Formula) -> None:
    from pyModelChecking import CTL, Kripke

    transitions = [(world, one) for world in structure.worlds for one in structure.transitions[world]]
    labels = {world: set(structure.labels[world]) for world in structure.worlds}
    theirs = Kripke(S=list(structure.worlds), R=transitions, L=labels)
    assert k.check(structure, formula).satisfying == set(CTL.modelcheck(theirs, translated(formula)))


@pytest.mark.fuzz
@few(40)
@given(structures(), FORMULAS)
def test_they_agree(structure: k.KripkeStructure[int], formula: k.Formula) -> None:
    agrees(structure, formula)


@pytest.mark.deep
@settings(max_examples=20_000)
@given(structures(), FORMULAS)
def test_they_agree_on_twenty_thousand_structures_and_formulas(structure: k.KripkeStructure[int], formula: k.Formula) -> None:
    agrees(structure, formula)

"""The checker against every path of small structures, against laws, and its paths against the structure."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fable_exec.assurance import kripke as k
from fable_exec.assurance.kripke import AF, AG, AU, AX, EF, EG, EU, EX, FALSE, TRUE, Atom, KripkeStructure, Not, check
from tests.assurance.structures import FORMULAS, LEAVES, evaluate, few, holds, is_path, structures

QUICK = few(40)
LONG = settings(max_examples=20_000)
TRAFFIC = KripkeStructure(
    ["red", "green", "amber", "off"],
    {"red": ["stop"], "amber": ["stop", "soon"], "green": ["go"]},
    [("red", "green"), ("green", "amber"), ("amber", "red"), ("red", "off"), ("off", "off")],
)


def agrees(structure: KripkeStructure[int], formula: k.Formula) -> None:
    assert check(structure, formula).satisfying == evaluate(structure, formula)


@pytest.mark.fuzz
@QUICK
@given(structures(), FORMULAS)
def test_it_agrees_with_an_evaluator_that_walks_every_path(structure: KripkeStructure[int], formula: k.Formula) -> None:
    agrees(structure, formula)


@pytest.mark.deep
@LONG
@given(structures(), FORMULAS)
def test_it_agrees_on_twenty_thousand_structures_and_formulas(structure: KripkeStructure[int], formula: k.Formula) -> None:
    agrees(structure, formula)


@few(15)
@given(structures(), st.sampled_from([AX, EX, AF, EF, AG, EG]), LEAVES, LEAVES)
def test_the_evaluator_itself_needs_no_labels_put_in(
    structure: KripkeStructure[int], kind: type, one: k.Formula, two: k.Formula
) -> None:
    formula = kind(AU(one, EX(two)))
    assert evaluate(structure, formula) == {world for world in structure.worlds if holds(structure, world, formula)}


LAWS = [
    ("AX is not EX not", lambda f, g: (AX(f), Not(EX(Not(f))))),
    ("AG is not EF not", lambda f, g: (AG(f), Not(EF(Not(f))))),
    ("AF is not EG not", lambda f, g: (AF(f), Not(EG(Not(f))))),
    ("EF is an until", lambda f, g: (EF(f), EU(TRUE, f))),
    ("AF is an until", lambda f, g: (AF(f), AU(TRUE, f))),
    ("AU by EU and EG", lambda f, g: (AU(f, g), Not(EU(Not(g), Not(f) & Not(g)) | EG(Not(g))))),
    ("EF unfolds", lambda f, g: (EF(f), f | EX(EF(f)))),
    ("AF unfolds", lambda f, g: (AF(f), f | AX(AF(f)))),
    ("EG unfolds", lambda f, g: (EG(f), f & EX(EG(f)))),
    ("AG unfolds", lambda f, g: (AG(f), f & AX(AG(f)))),
    ("EU unfolds", lambda f, g: (EU(f, g), g | (f & EX(EU(f, g))))),
    ("AU unfolds", lambda f, g: (AU(f, g), g | (f & AX(AU(f, g))))),
    ("implication", lambda f, g: (f >> g, Not(f) | g)),
    ("AG twice", lambda f, g: (AG(AG(f)), AG(f))),
    ("EX over or", lambda f, g: (EX(f | g), EX(f) | EX(g))),
    ("nothing is never", lambda f, g: (EF(FALSE), FALSE)),
]


@pytest.mark.fuzz
@few(25)
@given(structures(), FORMULAS, FORMULAS)
def test_duals_and_expansions_hold(structure: KripkeStructure[int], one: k.Formula, other: k.Formula) -> None:
    for name, law in LAWS:
        left, right = law(one, other)
        assert check(structure, left).satisfying == check(structure, right).satisfying, name


@pytest.mark.fuzz
@QUICK
@given(structures(), FORMULAS)
def test_a_counterexample_and_a_witness_are_paths_from_the_world_asked_about(
    structure: KripkeStructure[int], formula: k.Formula
) -> None:
    result = check(structure, formula)
    for world in structure.worlds:
        against, for_it = result.counterexample(world), result.witness(world)
        assert (against is None) == result.holds(world) == (for_it is not None)
        path = for_it if against is None else against
        assert path is not None
        assert path[0] == world
        assert is_path(structure, path)


@pytest.mark.fuzz
@QUICK
@given(structures(), LEAVES, LEAVES)
def test_a_counterexample_breaks_what_it_is_for(structure: KripkeStructure[int], f: k.Formula, g: k.Formula) -> None:
    true_of = {each: check(structure, each).satisfying for each in (f, g)}
    for world in structure.worlds:
        if path := check(structure, AG(f)).counterexample(world):
            assert path[-1] not in true_of[f] and all(one in true_of[f] for one in path[:-1])
        if path := check(structure, AX(f)).counterexample(world):
            assert len(path) == 2 and path[1] not in true_of[f]
        if path := check(structure, AF(f)).counterexample(world):
            assert path[-1] in path[:-1] and not true_of[f].intersection(path)
        if path := check(structure, AU(f, g)).counterexample(world):
            assert not true_of[g].intersection(path)
            assert path[-1] in path[:-1] or path[-1] not in true_of[f]
        if path := check(structure, EF(f)).witness(world):
            assert path[-1] in true_of[f]
        if path := check(structure, EG(f)).witness(world):
            assert path[-1] in path[:-1] and true_of[f].issuperset(path)
        if path := check(structure, EU(f, g)).witness(world):
            assert path[-1] in true_of[g] and true_of[f].issuperset(path[:-1])
        if path := check(structure, EX(f)).witness(world):
            assert len(path) == 2 and path[1] in true_of[f]


def test_a_path_to_read() -> None:
    result = check(TRAFFIC, "AG(go -> AF stop) & AF !(stop | go)")
    assert result.satisfying == {"off"}
    assert result.counterexample("green") == ["green", "amber", "red", "green"]
    assert check(TRAFFIC, "EF !(stop | go | soon)").witness("green") == ["green", "amber", "red", "off"]
    assert check(TRAFFIC, "A[stop U go]").counterexample("red") == ["red", "off"]


def test_an_atom_that_labels_no_world_is_false() -> None:
    assert check(TRAFFIC, "nowhere").satisfying == frozenset()
    assert check(TRAFFIC, "AG !nowhere").satisfying == set(TRAFFIC.worlds)


@pytest.mark.parametrize(
    ("worlds", "labels", "transitions", "message"),
    [
        ([], {}, {}, "a structure has at least one world"),
        (["a", "a"], {}, {"a": ["a"]}, "world 'a' stands twice"),
        (["a", "b"], {}, {"a": ["b"]}, "world 'b' has no next world; let it lead to itself if nothing follows"),
        (["a"], {}, {"a": []}, "world 'a' has no next world; let it lead to itself if nothing follows"),
        (["a"], {}, {"a": ["b"]}, "world 'b' is not there"),
        (["a"], {}, [("b", "a")], "world 'b' is not there"),
        (["a"], {"b": ["p"]}, {"a": ["a"]}, "world 'b' is not there"),
        (["a"], {"a": "p"}, {"a": ["a"]}, "labels of 'a' must be a collection of names, not one text"),
    ],
)
def test_a_structure_with_a_hole_is_refused_by_name(
    worlds: list[str], labels: dict[str, Any], transitions: Any, message: str
) -> None:
    with pytest.raises(ValueError) as caught:
        KripkeStructure(worlds, labels, transitions)
    assert str(caught.value) == message


def test_a_world_that_is_not_there_is_refused() -> None:
    result = check(TRAFFIC, "AG stop")
    for ask in (result.holds, result.counterexample, result.witness):
        with pytest.raises(ValueError, match="world 'blue' is not there"):
            ask("blue")


def test_worlds_may_be_any_values_and_transitions_may_repeat() -> None:
    structure: KripkeStructure[Any] = KripkeStructure(
        [(1, None), frozenset()], {}, [((1, None), frozenset())] * 3 + [(frozenset(), frozenset())]
    )
    assert structure.transitions == {(1, None): (frozenset(),), frozenset(): (frozenset(),)}
    assert (len(structure), frozenset() in structure, 7 in structure) == (2, True, False)


@pytest.mark.fuzz
@few(30)
@given(structures(), FORMULAS)
def test_json_keeps_what_is_true(structure: KripkeStructure[int], formula: k.Formula) -> None:
    back = KripkeStructure.from_json(structure.to_json())
    assert back.worlds == tuple(map(str, structure.worlds))
    assert check(back, formula).satisfying == set(map(str, check(structure, formula).satisfying))


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        "{",
        "[" * 100_000,
        '{"worlds": 1, "labels": {}, "transitions": {}}',
        '{"worlds": ["a"], "labels": {}, "transitions": {}}',
        '{"worlds": [["a"]], "labels": {}, "transitions": {}}',
        '{"worlds": [1], "labels": {}, "transitions": {"1": ["1"]}}',
        '{"worlds": ["a"], "labels": {}, "transitions": {"a": "a"}}',
        '{"worlds": ["a"], "labels": {}, "transitions": {"a": 5}}',
        '{"worlds": ["a"], "labels": {}, "transitions": [["a", "a"]]}',
        '{"worlds": ["a"], "labels": {"a": null}, "transitions": {"a": ["a"]}}',
        '{"worlds": ["a"], "labels": {"a": [{}]}, "transitions": {"a": ["a"]}}',
    ],
)
def test_json_that_is_no_structure_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        KripkeStructure.from_json(text)


def test_a_formula_that_was_built_may_be_nested_as_deep_as_one_likes() -> None:
    go = wide = negated = doubled = k.parse_formula("go")
    for _ in range(10_000):
        wide, negated = wide | Atom("soon"), ~negated
    for _ in range(60):
        doubled = doubled & doubled  # not looked at once for each of its 2**60 places
    assert check(TRAFFIC, wide).satisfying == {"green", "amber"}
    assert check(TRAFFIC, negated).satisfying == check(TRAFFIC, doubled).satisfying == check(TRAFFIC, go).satisfying


def test_two_worlds_of_one_name_are_not_written() -> None:
    with pytest.raises(ValueError, match="two worlds are called '1'"):
        KripkeStructure([1, "1"], {}, {1: [1], "1": [1]}).to_json()
    assert json.loads(TRAFFIC.to_json())["labels"]["amber"] == ["soon", "stop"]


def test_a_graph_shows_the_path() -> None:
    text = TRAFFIC.to_graphviz(["red", "off"])
    assert text.startswith("digraph structure {\n")
    assert '0 [label="red\\nstop", color=red];' in text
    assert "0 -> 3 [color=red];" in text and "0 -> 1;" in text
    hostile = KripkeStructure(['a"]; x [label="\\'], {}, {'a"]; x [label="\\': ['a"]; x [label="\\']})
    assert '0 [label="a\\"]; x [label=\\"\\\\"];' in hostile.to_graphviz()
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tplain"], input=hostile.to_graphviz(), text=True, check=True, capture_output=True)

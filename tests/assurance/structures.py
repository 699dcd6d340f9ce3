"""Random structures and formulas, and an evaluator that shares nothing with the checker: it walks every path."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import hypothesis
from hypothesis import strategies as st

from fable_exec.assurance import kripke as k

NAMES = ("p", "q", "r")
_MOST_WORLDS = 5
_MOST_NEXT = 2
_QUICK_EXAMPLES = 100


@st.composite
def structures(draw: st.DrawFn) -> k.KripkeStructure[int]:
    count = draw(st.integers(1, _MOST_WORLDS))
    worlds = st.integers(0, count - 1)
    labels = {world: draw(st.sets(st.sampled_from(NAMES))) for world in range(count)}
    transitions = {world: draw(st.sets(worlds, min_size=1, max_size=_MOST_NEXT)) for world in range(count)}
    return k.KripkeStructure(range(count), labels, transitions)


LEAVES = st.sampled_from([k.TRUE, k.FALSE, *map(k.Atom, NAMES), k.Atom("nowhere")])
ON_ONE = (k.Not, k.AX, k.EX, k.AF, k.EF, k.AG, k.EG)
ON_TWO = (k.And, k.Or, k.Implies, k.EU, k.AU)
FORMULAS = st.recursive(
    LEAVES,
    lambda parts: (
        st.builds(lambda kind, part: kind(part), st.sampled_from(ON_ONE), parts)
        | st.builds(lambda kind, left, right: kind(left, right), st.sampled_from(ON_TWO), parts, parts)
    ),
    max_leaves=4,
)


def few(examples: int) -> hypothesis.settings:
    """So many examples in the quick profile, whose tests cost little together; a tenth of what `make fuzz` gives to others."""
    usual = hypothesis.settings.default.max_examples
    return hypothesis.settings(max_examples=examples if usual <= _QUICK_EXAMPLES else usual // 10)


def paths(structure: k.KripkeStructure[int], world: int) -> Iterator[tuple[int, ...]]:
    """Every path with as many steps as there are worlds: long enough to have come round, whatever it avoids."""
    steps = len(structure.worlds)

    def longer(path: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(path) > steps:
            yield path
            return
        for one in structure.transitions[path[-1]]:
            yield from longer((*path, one))

    return longer((world,))


def holds(structure: k.KripkeStructure[int], world: int, formula: k.Formula) -> bool:
    """Whether `formula` is true of `world`, by the definition of each operator on unrolled paths."""
    walks = list(paths(structure, world))

    def at(one: int, part: k.Formula) -> bool:
        return holds(structure, one, part)

    def until(path: tuple[int, ...], left: k.Formula, right: k.Formula) -> bool:
        for place, one in enumerate(path):
            if at(one, right):
                return all(at(before, left) for before in path[:place])
        return False

    match formula:
        case k.Constant(value):
            return value
        case k.Atom(name):
            return name in structure.labels[world]
        case k.Not(part):
            return not at(world, part)
        case k.And(left, right):
            return at(world, left) and at(world, right)
        case k.Or(left, right):
            return at(world, left) or at(world, right)
        case k.Implies(left, right):
            return not at(world, left) or at(world, right)
        case k.EX(part):
            return any(at(path[1], part) for path in walks)
        case k.AX(part):
            return all(at(path[1], part) for path in walks)
        case k.EF(part):
            return any(any(at(one, part) for one in path) for path in walks)
        case k.AF(part):
            return all(any(at(one, part) for one in path) for path in walks)
        case k.EG(part):
            return any(all(at(one, part) for one in path) for path in walks)
        case k.AG(part):
            return all(all(at(one, part) for one in path) for path in walks)
        case k.EU(left, right):
            return any(until(path, left, right) for path in walks)
        case k.AU(left, right):
            return all(until(path, left, right) for path in walks)
    raise AssertionError(formula)


def evaluate(structure: k.KripkeStructure[int], formula: k.Formula) -> frozenset[int]:
    """The same for every world, each subformula once: its truth is put in as a label before what it is a part of is asked."""
    labels = {world: set(names) for world, names in structure.labels.items()}
    named: dict[k.Formula, k.Formula] = {}
    for number, part in enumerate(_inner_first(formula)):
        flat = _with_parts(part, [named[each] for each in _parts(part)])
        labelled = k.KripkeStructure(structure.worlds, labels, structure.transitions)
        for world in structure.worlds:
            if holds(labelled, world, flat):
                labels[world].add(f"f{number}")
        named[part] = k.Atom(f"f{number}")
    name = str(named[formula])
    return frozenset(world for world in structure.worlds if name in labels[world])


def _inner_first(formula: k.Formula) -> list[k.Formula]:
    found: dict[k.Formula, None] = {}
    for part in _parts(formula):
        found.update(dict.fromkeys(_inner_first(part)))
    return [*found, *([formula] if formula not in found else [])]


def _parts(formula: k.Formula) -> list[k.Formula]:
    return [getattr(formula, name) for name in ("part", "left", "right") if hasattr(formula, name)]


def _with_parts(formula: k.Formula, parts: list[k.Formula]) -> k.Formula:
    return type(formula)(*parts) if parts else formula


def is_path(structure: k.KripkeStructure[int], path: list[int]) -> bool:
    return all(one in structure.transitions[before] for before, one in itertools.pairwise(path))

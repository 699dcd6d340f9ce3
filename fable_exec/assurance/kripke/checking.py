"""Where a formula holds, by fixed points over the whole structure, and the path that shows why it does or does not.

Labelling after Clarke, Emerson, Sistla (1986): each operator looks at every transition once. A set of worlds is a bytearray.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import cached_property
from typing import Generic

from fable_exec.assurance.kripke.formulas import (
    AF,
    AG,
    AU,
    AX,
    EF,
    EG,
    EU,
    EX,
    TRUE,
    And,
    Atom,
    Constant,
    Formula,
    Implies,
    Not,
    Or,
    subformulas,
)
from fable_exec.assurance.kripke.parsing import parse_formula
from fable_exec.assurance.kripke.structure import KripkeStructure, World

__all__ = ["CheckResult", "check"]

_NEGATE = bytes([1, 0]) + bytes(254)


def check(structure: KripkeStructure[World], formula: Formula | str) -> CheckResult[World]:
    """Where `formula` holds. Time and memory are linear in the structure for each operator of the formula.

    Raises:
        FormulaError: a text that is no formula.
    """
    wanted = parse_formula(formula) if isinstance(formula, str) else formula
    holding: dict[Formula, bytearray] = {}
    for each in subformulas(wanted):
        holding[each] = _holding(structure, each, holding)
    return CheckResult(structure, wanted, holding)


class CheckResult(Generic[World]):
    """The answer of `check`, and the paths behind it, which are looked for when they are asked for.

    A path is a list of worlds, each a next one of that before. One that has to go on for ever ends with a world that it has
    passed already: from there it goes round.
    """

    def __init__(self, structure: KripkeStructure[World], formula: Formula, holding: dict[Formula, bytearray]) -> None:
        self.structure = structure
        self.formula = formula
        self._holding = holding

    @cached_property
    def satisfying(self) -> frozenset[World]:
        """The worlds of which the formula is true."""
        holds = self._holding[self.formula]
        return frozenset(world for place, world in enumerate(self.structure.worlds) if holds[place])

    def holds(self, world: World) -> bool:
        """Whether the formula is true of `world`. ValueError for one that is not there."""
        return bool(self._holding[self.formula][self.structure.place(world)])

    def counterexample(self, world: World) -> list[World] | None:
        """A path from `world` on which the formula fails; None where it holds.

        It is shortest for AG and AX. For E-formulas, which fail on all paths at once, it is the world alone.
        """
        if self.holds(world):
            return None
        return self._named(_Evidence(self.structure, self._holding).against(self.structure.place(world), self.formula))

    def witness(self, world: World) -> list[World] | None:
        """A path from `world` that shows an E-formula true; None where it fails. For A-formulas it is the world alone."""
        if not self.holds(world):
            return None
        return self._named(_Evidence(self.structure, self._holding).for_it(self.structure.place(world), self.formula))

    def _named(self, path: list[int]) -> list[World]:
        return [self.structure.worlds[place] for place in path]


# Labelling.


def _holding(structure: KripkeStructure[World], formula: Formula, known: dict[Formula, bytearray]) -> bytearray:
    """Where `formula` holds, when it is known of its parts."""
    match formula:
        case Constant(value):
            return bytearray([value]) * len(structure)
        case Atom(name):
            return structure.places_labelled(name)
        case Not(part):
            return _not(known[part])
        case And(left, right):
            return bytearray(map(int.__and__, known[left], known[right]))
        case Or(left, right):
            return bytearray(map(int.__or__, known[left], known[right]))
        case Implies(left, right):
            return bytearray(map(int.__or__, _not(known[left]), known[right]))
        case EX(part):
            return _some_next(structure, known[part])
        case AX(part):
            return _not(_some_next(structure, _not(known[part])))
        case EF(part):
            return _some_until(structure, None, known[part])
        case AG(part):
            return _not(_some_until(structure, None, _not(known[part])))
        case EU(left, right):
            return _some_until(structure, known[left], known[right])
        case AF(part):
            return _every_until(structure, None, known[part])
        case EG(part):
            return _not(_every_until(structure, None, _not(known[part])))
        case AU(left, right):
            return _every_until(structure, known[left], known[right])
    raise TypeError(f"not a formula: {type(formula).__name__}")


def _not(flags: bytearray) -> bytearray:
    return flags.translate(_NEGATE)


def _some_next(structure: KripkeStructure[World], goal: bytearray) -> bytearray:
    found = bytearray(len(goal))
    preceding = structure.preceding_places
    for place, is_goal in enumerate(goal):
        if is_goal:
            for before in preceding[place]:
                found[before] = 1
    return found


def _some_until(structure: KripkeStructure[World], way: bytearray | None, goal: bytearray) -> bytearray:
    """E[way U goal]: backwards from the goal; None is everywhere."""
    found = bytearray(goal)
    preceding = structure.preceding_places
    waiting = [place for place, is_goal in enumerate(goal) if is_goal]
    while waiting:
        for before in preceding[waiting.pop()]:
            if not found[before] and (way is None or way[before]):
                found[before] = 1
                waiting.append(before)
    return found


def _every_until(structure: KripkeStructure[World], way: bytearray | None, goal: bytearray) -> bytearray:
    """A[way U goal]: a world joins when the last of its next worlds has."""
    found = bytearray(goal)
    preceding = structure.preceding_places
    missing = [len(following) for following in structure.following_places]
    waiting = [place for place, is_goal in enumerate(goal) if is_goal]
    while waiting:
        for before in preceding[waiting.pop()]:
            missing[before] -= 1
            if not missing[before] and not found[before] and (way is None or way[before]):
                found[before] = 1
                waiting.append(before)
    return found


# Paths.


class _Evidence:
    """Finds paths in a labelled structure. Both questions are only asked where the answer is known to be there."""

    def __init__(self, structure: KripkeStructure[World], holding: dict[Formula, bytearray]) -> None:
        self._next = structure.following_places
        self._holding = holding

    def against(self, place: int, formula: Formula) -> list[int]:
        """Why `formula` fails here."""
        match formula:
            case Not(part):
                return self.for_it(place, part)
            case And(left, right):
                return self.against(place, right if self._holding[left][place] else left)
            case Or(left, right):
                return max(self.against(place, left), self.against(place, right), key=len)
            case Implies(left, right):
                return max(self.against(place, right), self.for_it(place, left), key=len)
            case AX(part):
                failing = next(one for one in self._next[place] if not self._holding[part][one])
                return [place, *self.against(failing, part)]
            case AG(part):
                return self._on_to(place, lambda one: not self._holding[part][one], lambda one: self.against(one, part))
            case AF(part):
                return self._against_until(place, formula, TRUE, part)
            case AU(left, right):
                return self._against_until(place, formula, left, right)
        return [place]

    def for_it(self, place: int, formula: Formula) -> list[int]:
        """Why `formula` holds here."""
        match formula:
            case Not(part):
                return self.against(place, part)
            case And(left, right):
                return max(self.for_it(place, left), self.for_it(place, right), key=len)
            case Or(left, right):
                return self.for_it(place, left if self._holding[left][place] else right)
            case Implies(left, right):
                return self.for_it(place, right) if self._holding[right][place] else self.against(place, left)
            case EX(part):
                goal = next(one for one in self._next[place] if self._holding[part][one])
                return [place, *self.for_it(goal, part)]
            case EF(part):
                return self._on_to(place, lambda one: bool(self._holding[part][one]), lambda one: self.for_it(one, part))
            case EG(part):
                return self._round(place, lambda one: bool(self._holding[formula][one]))
            case EU(left, right):
                goes = self._holding[left]
                return self._on_to(
                    place,
                    lambda one: bool(self._holding[right][one]),
                    lambda one: self.for_it(one, right),
                    lambda one: bool(goes[one]),
                )
        return [place]

    def _against_until(self, place: int, formula: Formula, way: Formula, goal: Formula) -> list[int]:
        """Either the way ends before the goal, or it goes round without it."""
        fails = self._holding[formula]
        ends = None if way is TRUE else self._holding[way]
        reached, waiting = self._holding[goal], deque([place])
        came: dict[int, int | None] = {place: None}
        while ends is not None and waiting:
            one = waiting.popleft()
            if not ends[one] and not reached[one]:
                return _back(came, one)
            for following in self._next[one]:
                if following not in came and not fails[following]:
                    came[following] = one
                    waiting.append(following)
        return self._round(place, lambda one: not fails[one])

    def _on_to(
        self,
        place: int,
        is_goal: Callable[[int], bool],
        rest: Callable[[int], list[int]],
        is_way: Callable[[int], bool] = lambda _: True,
    ) -> list[int]:
        """A shortest path from `place` to a goal, and the rest of it from there."""
        came: dict[int, int | None] = {place: None}
        waiting = deque([place])
        while True:
            one = waiting.popleft()
            if is_goal(one):
                return [*_back(came, one)[:-1], *rest(one)]
            if is_way(one):
                for following in self._next[one]:
                    if following not in came:
                        came[following] = one
                        waiting.append(following)

    def _round(self, place: int, is_way: Callable[[int], bool]) -> list[int]:
        """From `place` along the way until it comes back to where it was."""
        path, seen = [place], {place}
        while True:
            following = next(one for one in self._next[path[-1]] if is_way(one))
            path.append(following)
            if following in seen:
                return path
            seen.add(following)


def _back(came: dict[int, int | None], place: int) -> list[int]:
    path: list[int] = []
    at: int | None = place
    while at is not None:
        path.append(at)
        at = came[at]
    return path[::-1]

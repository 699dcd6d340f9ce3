"""Formulas of CTL as values. `str` of one is text that parses back to it; `~f`, `f & g`, `f | g` and `f >> g` build them, too."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

__all__ = [
    "AF",
    "AG",
    "AU",
    "AX",
    "EF",
    "EG",
    "EU",
    "EX",
    "FALSE",
    "TRUE",
    "And",
    "Atom",
    "Box",
    "Constant",
    "Diamond",
    "Formula",
    "Implies",
    "Not",
    "Or",
    "atoms_of",
    "parts_of",
    "subformulas",
]


class Formula:
    """What may be true of a world. Frozen, hashable, compared by its form.

    `str` of one, its hash and the paths of a check recurse as deep as it is nested: beyond some hundred levels Python refuses.
    """

    __slots__ = ()

    def __invert__(self) -> Not:
        return Not(self)

    def __and__(self, other: Formula) -> And:
        return And(self, other)

    def __or__(self, other: Formula) -> Or:
        return Or(self, other)

    def __rshift__(self, other: Formula) -> Implies:
        return Implies(self, other)


@attrs.frozen(cache_hash=True)
class Constant(Formula):
    """`true` or `false`."""

    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


TRUE = Constant(True)
FALSE = Constant(False)


@attrs.frozen(cache_hash=True)
class Atom(Formula):
    """True of the worlds that carry the label `name`; of none where no world does."""

    name: str

    def __str__(self) -> str:
        return self.name


@attrs.frozen(cache_hash=True)
class Not(Formula):
    """`!f`"""

    part: Formula

    def __str__(self) -> str:
        return f"!{_closed(self.part)}"


@attrs.frozen(cache_hash=True)
class And(Formula):
    """`f & g`"""

    left: Formula
    right: Formula

    def __str__(self) -> str:
        return f"{_closed(self.left)} & {_closed(self.right)}"


@attrs.frozen(cache_hash=True)
class Or(Formula):
    """`f | g`"""

    left: Formula
    right: Formula

    def __str__(self) -> str:
        return f"{_closed(self.left)} | {_closed(self.right)}"


@attrs.frozen(cache_hash=True)
class Implies(Formula):
    """`f -> g`"""

    left: Formula
    right: Formula

    def __str__(self) -> str:
        return f"{_closed(self.left)} -> {_closed(self.right)}"


@attrs.frozen(cache_hash=True)
class _OnPaths(Formula):
    """A word before one formula."""

    part: Formula

    def __str__(self) -> str:
        return f"{type(self).__name__} {_closed(self.part)}"


class EX(_OnPaths):
    """Some next world."""


class AX(_OnPaths):
    """Every next world."""


class EF(_OnPaths):
    """On some path, now or some time."""


class AF(_OnPaths):
    """On every path, now or some time."""


class EG(_OnPaths):
    """On some path, now and always."""


class AG(_OnPaths):
    """On every path, now and always."""


@attrs.frozen(cache_hash=True)
class EU(Formula):
    """`E[f U g]`: on some path, `left` holds until `right` does, and `right` does."""

    left: Formula
    right: Formula

    def __str__(self) -> str:
        return f"E[{self.left} U {self.right}]"


@attrs.frozen(cache_hash=True)
class AU(Formula):
    """`A[f U g]`: on every path, `left` holds until `right` does, and `right` does."""

    left: Formula
    right: Formula

    def __str__(self) -> str:
        return f"A[{self.left} U {self.right}]"


Box, Diamond = AX, EX
"""`[]f` and `<>f`: modal logic's words for the two."""

_OPEN = (And, Or, Implies)


def parts_of(formula: Formula) -> tuple[Formula, ...]:
    """The formulas that `formula` is made of, one level down."""
    match formula:
        case Not(part) | _OnPaths(part):
            return (part,)
        case And(left, right) | Or(left, right) | Implies(left, right) | EU(left, right) | AU(left, right):
            return (left, right)
    return ()


def subformulas(formula: Formula) -> Iterator[Formula]:
    """Every formula within, itself last, each once and after its parts."""
    seen: set[Formula] = set()
    entered: set[int] = set()
    waiting = [(formula, False)]
    while waiting:
        each, parts_are_done = waiting.pop()
        if parts_are_done:
            if each not in seen:  # its parts were here and keep their hashes: this recurses one level, however deep it is nested
                seen.add(each)
                yield each
        elif id(each) not in entered:
            entered.add(id(each))
            waiting.append((each, True))
            waiting.extend((part, False) for part in reversed(parts_of(each)))


def atoms_of(formula: Formula) -> frozenset[str]:
    """The names of all labels that it asks for."""
    return frozenset(each.name for each in subformulas(formula) if isinstance(each, Atom))


def _closed(part: Formula) -> str:
    return f"({part})" if isinstance(part, _OPEN) else str(part)

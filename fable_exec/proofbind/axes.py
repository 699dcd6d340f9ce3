"""What can be asked of a proof document, and the three answers: it passes, it fails, it was not or could not be checked. Pure.

Nothing here makes one answer of many but `shortcomings`, which every verdict of this package is built on, so that what was not
checked never counts as passed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from enum import Enum

import attrs

__all__ = [
    "MAX_DETAIL",
    "MAX_LISTED",
    "Axis",
    "AxisResult",
    "AxisState",
    "Reasoned",
    "axes_members",
    "failed",
    "in_order",
    "not_passed",
    "passed",
    "result_of",
    "shortcomings",
    "unchecked",
]

MAX_DETAIL = 300
"""The longest sentence kept, in characters: documents are written by those whose work they judge."""
MAX_LISTED = 50
"""As many gaps, or failed gates, are told by name, so that a record has room for whatever stands in a document."""


class AxisState(Enum):
    """What is known of one axis."""

    PASS = "pass"
    FAIL = "fail"
    UNCHECKED = "unchecked"
    """Not known. Never enough where the axis is required."""


class Axis(Enum):
    """One question, in the order in which verdicts list their reasons."""

    DOCUMENT = "document"
    """It is one JSON object, and no two readers could take it for two things."""
    SCHEMA = "schema"
    """Its version is one whose rules are known here."""
    HASH = "hash"
    """Its digest is that of its canonical bytes."""
    SIGNATURE = "signature"
    """A key that the embedder named has signed it."""
    HEADLINE = "headline"
    """Its headline is the one that follows from its facts."""
    DEGRADED = "degraded"
    """It owns up to every gap that follows from its facts."""
    COST = "cost"
    """What it says of its cost does not contradict itself."""
    DIFF = "diff"
    """The working tree differs from the base as it says."""
    TREE = "tree"
    """The working tree is the one that it names."""
    TREE_FIELDS = "tree_fields"
    """It names one tree, wherever it names it."""
    RUN_ID = "run_id"
    """It is of this very run."""
    EXECUTION = "execution"
    """The run that it tells of ended well."""
    GATES = "gates"
    """No quality gate failed."""
    FRESHNESS = "freshness"
    """The run is not the one that was there before, and its proof is still the file that was read."""


def _bounded(text: str) -> str:
    printable = "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text[: MAX_DETAIL + 1])
    return printable if len(printable) <= MAX_DETAIL else f"{printable[: MAX_DETAIL - 3]}..."


@attrs.frozen
class AxisResult:
    """The answer for one axis."""

    axis: Axis
    state: AxisState
    reason: str = ""
    """A stable word that begins with the axis (docs/reference/proofs.md); "" for PASS alone."""
    detail: str = attrs.field(default="", converter=_bounded)
    """One sentence for a person, at most MAX_DETAIL characters of printable text; "" for PASS alone."""

    @property
    def is_pass(self) -> bool:
        """Whether it passed."""
        return self.state is AxisState.PASS


class Reasoned(ABC):
    """What holds exactly if nothing stands against it, and says in words what does."""

    __slots__ = ()

    @property
    @abstractmethod
    def shortcomings(self) -> tuple[AxisResult, ...]:
        """The answers that stand against it."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it does not hold, as stable words; empty exactly if nothing stands against it."""
        return tuple(each.reason for each in self.shortcomings)

    @property
    def reason(self) -> str:
        """The first of them, "" if there is none."""
        return next(iter(self.reasons), "")


def passed(axis: Axis) -> AxisResult:
    """It passes."""
    return AxisResult(axis, AxisState.PASS)


def failed(axis: Axis, why: str, detail: str) -> AxisResult:
    """It fails; `why` becomes the part of the reason after the name of the axis."""
    return AxisResult(axis, AxisState.FAIL, _reason(axis, why), detail)


def unchecked(axis: Axis, why: str, detail: str) -> AxisResult:
    """It was not or could not be checked; `why` as for `failed`."""
    return AxisResult(axis, AxisState.UNCHECKED, _reason(axis, why), detail)


def _reason(axis: Axis, why: str) -> str:
    return f"{axis.value.replace('_', '-')}-{why}"


def result_of(results: Iterable[AxisResult], axis: Axis) -> AxisResult:
    """The answer for `axis`; UNCHECKED where nobody asked."""
    return next((each for each in results if each.axis is axis), unchecked(axis, "not-asked", "nobody looked at it"))


def in_order(results: Iterable[AxisResult]) -> tuple[AxisResult, ...]:
    """The same, in the order of `Axis`."""
    places = list(Axis)
    return tuple(sorted(results, key=lambda each: places.index(each.axis)))


def not_passed(results: Iterable[AxisResult]) -> tuple[AxisResult, ...]:
    """Those that failed or were not checked."""
    return tuple(each for each in results if not each.is_pass)


def shortcomings(
    results: Collection[AxisResult], required: Collection[Axis], unbroken: Collection[Axis] = ()
) -> tuple[AxisResult, ...]:
    """What stands against a verdict, in the order of `Axis`; it holds exactly if there is nothing.

    Args:
        results: at most one for each axis.
        required: axes that must have passed.
        unbroken: axes that must not have failed, and may be unchecked.
    """
    answers = (result_of(results, axis) for axis in Axis if axis in required or axis in unbroken)
    return tuple(each for each in not_passed(answers) if each.axis in required or each.state is AxisState.FAIL)


def axes_members(axes: Iterable[AxisResult]) -> dict[str, dict[str, str]]:
    """Every answer as JSON, by the name of its axis."""
    return {each.axis.value: {"state": each.state.value, "reason": each.reason, "detail": each.detail} for each in axes}

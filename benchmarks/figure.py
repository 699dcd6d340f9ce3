"""One row of the table: what was measured, against what, what was asked for, and whether it was met."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs

from benchmarks.measuring import Samples

__all__ = ["Figure", "Target", "Unit", "Verdict", "at_least", "at_most", "faster", "times"]


@attrs.frozen
class Unit:
    """How seconds are shown: as a time, or, where one act does `amount` of something, as a speed."""

    name: str
    scale: float
    amount: float | None = None

    def shown(self, seconds: float) -> str:
        value = seconds * self.scale if self.amount is None else self.amount / seconds * self.scale
        return f"{_short(value)} {self.name}"


MILLISECONDS = Unit("ms", 1e3)
MICROSECONDS = Unit("µs", 1e6)
NANOSECONDS = Unit("ns", 1e9)


def megabytes_per_second(size_bytes: int) -> Unit:
    return Unit("MB/s", 1e-6, size_bytes)


def commands_per_second(count: int) -> Unit:
    return Unit("/s", 1.0, count)


class Verdict(Enum):
    """The target holds by the median, only by the best round, or not at all."""

    MET = "met"
    AT_BEST = "met by the minimum only"
    MISSED = "missed"
    NONE = "-"


@attrs.frozen
class Target:
    """A bound on the ratio to the reference (`relative`) or on the figure itself, in seconds."""

    text: str
    limit: float
    relative: bool
    both: bool = False
    """Median and minimum have to hold; without it the median decides."""

    def verdict(self, ours: Samples, reference: Samples | None) -> Verdict:
        if self.relative:
            assert reference is not None, "a ratio needs something to be compared with"
            ratio = ours.over(reference)
            typical, best = ratio.p50, ratio.best
        else:
            typical, best = ours.p50, ours.best
        if typical <= self.limit and (best <= self.limit or not self.both):
            return Verdict.MET
        return Verdict.AT_BEST if best <= self.limit else Verdict.MISSED


def times(limit: float, stretch: float | None = None, both: bool = False) -> Target:
    """At most so many times the reference."""
    more = f" (stretch {stretch:g}x)" if stretch else " (p50 and min)" if both else ""
    return Target(f"<= {limit:g}x{more}", limit, relative=True, both=both)


def faster(factor: float) -> Target:
    """At least so many times as fast as the reference."""
    return Target(f">= {factor:g}x faster", 1 / factor, relative=True)


def at_most(seconds: float) -> Target:
    return Target(f"<= {seconds * 1e3:g} ms", seconds, relative=False)


def at_least(speed: float, unit: Unit) -> Target:
    """At least this speed in a unit that has an amount."""
    assert unit.amount is not None
    return Target(f">= {speed:g} {unit.name}", unit.amount * unit.scale / speed, relative=False)


@attrs.frozen(kw_only=True)
class Figure:
    """`ours` beside `reference`, the raw limit or what people use today, and beside fable-engine and others."""

    key: str
    title: str
    unit: Unit
    ours: Samples
    reference: Samples | None = None
    reference_name: str = ""
    target: Target | None = None
    peer: Samples | None = None
    """fable-engine's; None where it cannot do this, or is not installed."""
    others: Mapping[str, Samples] = attrs.field(factory=dict)
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        return Verdict.NONE if self.target is None else self.target.verdict(self.ours, self.reference)

    @property
    def ratio(self) -> Samples | None:
        return None if self.reference is None else self.ours.over(self.reference)

    def cell(self, samples: Samples | None) -> str:
        """p50 (minimum)."""
        return "-" if samples is None else f"{self.unit.shown(samples.p50)} ({self.unit.shown(samples.best).split()[0]})"

    @property
    def ratio_cell(self) -> str:
        """p50, middle half, and the ratio of the two minima."""
        ratio = self.ratio
        if ratio is None:
            return "-"
        lower, upper = ratio.quartiles
        return f"{ratio.p50:.2f} ({lower:.2f}-{upper:.2f}; min {ratio.best:.2f})"

    def to_json(self) -> dict[str, Any]:
        """Seconds, whatever the unit."""
        ratio = self.ratio
        return {
            "key": self.key,
            "title": self.title,
            "unit": self.unit.name,
            "rounds": len(self.ours.seconds),
            "fable_exec": _summary(self.ours),
            "reference": None if self.reference is None else {"name": self.reference_name, **_summary(self.reference)},
            "ratio": None if ratio is None else _ratio_summary(ratio),
            "target": None if self.target is None else self.target.text,
            "verdict": self.verdict.value,
            "fable_engine": None if self.peer is None else _summary(self.peer),
            "others": {name: _summary(samples) for name, samples in self.others.items()},
            "note": self.note,
            "cells": {
                "fable_exec": self.cell(self.ours),
                "reference": self.cell(self.reference),
                "ratio": self.ratio_cell,
                "fable_engine": self.cell(self.peer),
                "others": {name: self.cell(samples) for name, samples in self.others.items()},
            },
        }


def _summary(samples: Samples) -> dict[str, float]:
    lower, upper = samples.quartiles
    shown = {"p50": samples.p50, "min": samples.best, "p25": lower, "p75": upper}
    return {f"{name}_seconds": float(f"{value:.6g}") for name, value in shown.items()}


def _ratio_summary(ratio: Samples) -> dict[str, float]:
    lower, upper = ratio.quartiles
    shown = {"p50": ratio.p50, "p25": lower, "p75": upper, "of_minima": ratio.best}
    return {name: round(value, 4) for name, value in shown.items()}


def _short(value: float) -> str:
    """Three digits that count, and no exponent."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"

"""Time several ways of doing one job in turns, so that the moods of a shared machine hit all of them alike.

Nothing here needs a quiet machine: ratios are taken pair by pair, within one round, and the spread is part of every result.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence

import attrs

__all__ = ["Contestant", "Samples", "interleaved", "timed"]


@attrs.frozen
class Samples:
    """Seconds of one contestant, in the order of the rounds."""

    seconds: tuple[float, ...]
    of_best: float | None = None
    """For what was computed from two: computed from the best of each. Noise may make a pair's difference anything."""

    @property
    def p50(self) -> float:
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        return min(self.seconds) if self.of_best is None else self.of_best

    @property
    def quartiles(self) -> tuple[float, float]:
        """The middle half of the samples lies between these."""
        if len(self.seconds) < 2:
            return self.seconds[0], self.seconds[0]
        lower, _, upper = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return lower, upper

    def over(self, other: Samples) -> Samples:
        """How many times the other's, round by round."""
        ratios = tuple(mine / its for mine, its in zip(self.seconds, other.seconds, strict=True))
        return Samples(ratios, self.best / other.best)

    def minus(self, other: Samples) -> Samples:
        """What is left without the other's, round by round."""
        left = tuple(mine - its for mine, its in zip(self.seconds, other.seconds, strict=True))
        return Samples(left, self.best - other.best)


@attrs.frozen
class Contestant:
    """One way of doing the job. `act` does it once and returns the seconds it took."""

    name: str
    act: Callable[[], float]


def timed(name: str, act: Callable[[], object], repeats: int = 1) -> Contestant:
    """A contestant that is timed here; the mean of `repeats` goes for one, where one is too short to be timed."""

    def clocked() -> float:
        times = range(repeats)
        start = time.perf_counter()
        for _ in times:
            act()
        return (time.perf_counter() - start) / repeats

    return Contestant(name, clocked)


def interleaved(contestants: Sequence[Contestant], rounds: int, warm_up: int = 2) -> dict[str, Samples]:
    """Everybody once a round. Who goes first moves on by one from round to round, and the direction turns each time around."""
    found: dict[str, list[float]] = {each.name: [] for each in contestants}
    if len(found) != len(contestants):
        raise ValueError("two contestants have one name")
    for each in contestants:
        for _ in range(warm_up):
            each.act()
    gc.collect()
    for number in range(rounds):
        for each in _order(contestants, number):
            found[each.name].append(each.act())
    return {name: Samples(tuple(seconds)) for name, seconds in found.items()}


def _order(contestants: Sequence[Contestant], number: int) -> list[Contestant]:
    first = number % len(contestants)
    order = [*contestants[first:], *contestants[:first]]
    return order[::-1] if number // len(contestants) % 2 else order

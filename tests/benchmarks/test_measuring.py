"""The harness: turns, pairs, and what counts as met."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.figure import MILLISECONDS, Figure, Verdict, at_least, at_most, commands_per_second, times
from benchmarks.measuring import Contestant, Samples, interleaved
from benchmarks.report import BEGIN, END, write_readme


def samples(*milliseconds: float) -> Samples:
    return Samples(tuple(each / 1e3 for each in milliseconds))


def test_everybody_has_one_turn_a_round_and_nobody_is_always_first() -> None:
    order: list[str] = []

    def contestant(name: str) -> Contestant:
        return Contestant(name, lambda: float(len(order.append(name) or order)))

    names = ["a", "b", "c"]
    found = interleaved([contestant(name) for name in names], rounds=6, warm_up=0)
    rounds = [order[at : at + 3] for at in range(0, 18, 3)]
    assert all(sorted(each) == names for each in rounds)
    assert {each[0] for each in rounds} == set(names)
    assert {each[-1] for each in rounds} == set(names)
    assert all(len(each.seconds) == 6 for each in found.values())


def test_warm_up_rounds_are_not_counted() -> None:
    calls: list[float] = []
    found = interleaved([Contestant("a", lambda: float(len(calls.append(0.0) or calls)))], rounds=2, warm_up=3)
    assert found["a"].seconds == (4.0, 5.0)


def test_two_contestants_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="one name"):
        interleaved([Contestant("a", lambda: 1.0)] * 2, rounds=1)


def test_ratios_are_taken_pair_by_pair() -> None:
    slow_moment = samples(1, 10, 1.2).over(samples(1, 10, 1))
    assert slow_moment.seconds == pytest.approx((1.0, 1.0, 1.2))
    assert slow_moment.p50 == pytest.approx(1.0)


def test_what_is_left_at_best_is_not_taken_from_a_pair_that_noise_has_turned_round() -> None:
    left = samples(20, 21, 22).minus(samples(10, 40, 11))
    assert left.p50 == pytest.approx(0.010)
    assert left.best == pytest.approx(0.010)


@pytest.mark.parametrize(
    ("ours", "reference", "target", "verdict"),
    [
        ((1.0, 1.1, 1.2), (1.0, 1.0, 1.0), times(1.15), Verdict.MET),
        ((1.0, 2.0, 2.0), (1.0, 1.0, 1.0), times(1.15), Verdict.AT_BEST),
        ((2.0, 2.0, 2.0), (1.0, 1.0, 1.0), times(1.15), Verdict.MISSED),
        ((2.0, 1.0, 1.0), (2.0, 1.0, 0.5), times(1.15), Verdict.MET),
        ((2.0, 1.0, 1.0), (2.0, 1.0, 0.5), times(1.15, both=True), Verdict.MISSED),
        ((70.0, 90.0, 75.0), (1.0, 1.0, 1.0), at_most(0.080), Verdict.MET),
        ((70.0, 90.0, 85.0), (1.0, 1.0, 1.0), at_most(0.080), Verdict.AT_BEST),
        ((1000.0, 900.0, 990.0), (1.0, 1.0, 1.0), at_least(100, commands_per_second(100)), Verdict.MET),
        ((1200.0, 1100.0, 1150.0), (1.0, 1.0, 1.0), at_least(100, commands_per_second(100)), Verdict.MISSED),
    ],
)
def test_a_verdict_is_by_the_median_and_says_when_only_the_best_round_holds(
    ours: tuple[float, ...], reference: tuple[float, ...], target: object, verdict: Verdict
) -> None:
    figure = Figure(
        key="k", title="t", unit=MILLISECONDS, ours=samples(*ours), reference=samples(*reference), target=target  # type: ignore[arg-type]  # a target of either kind
    )  # fmt: skip
    assert figure.verdict is verdict


def test_speeds_are_shown_as_speeds_with_the_best_one_behind() -> None:
    figure = Figure(key="k", title="t", unit=commands_per_second(100), ours=samples(100, 50, 200))
    assert figure.cell(figure.ours) == "1000 /s (2000)"


def test_only_what_stands_between_the_markers_is_rewritten(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for text in ("new", "newer"):
        write_readme(readme, text)
        assert readme.read_text() == f"before\n{BEGIN}\n\n{text}\n\n{END}\nafter\n"


@pytest.mark.parametrize(("text", "lost"), [("text\n", BEGIN), (f"text\n{BEGIN}\nmore text\n", END), (f"text\n{END}\n", BEGIN)])
def test_a_readme_that_has_lost_a_mark_is_left_alone(tmp_path: Path, text: str, lost: str) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(text)
    with pytest.raises(ValueError, match=f"the page has lost {lost}"):
        write_readme(readme, "new")
    assert readme.read_text() == text

"""One number for one process after the other: the former is never taken for the latter, and nothing reaches the stranger.

Real reuse, many times within one clock tick, in a PID namespace whose next number is chosen (/proc/sys/kernel/ns_last_pid).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.requires_ability("pidfd", "userns")]


@pytest.mark.parametrize("rounds", [60, pytest.param(500, marks=pytest.mark.deep)])
def test_a_strangers_number_leads_nobody_to_it(inside: Callable[..., Any], rounds: int) -> None:
    """S8, S12, S17, S24: by no comparison, by no record, by no handle, by no group."""
    counts = inside("reuse", str(rounds), timeout=30 + rounds / 10)
    in_one_tick = counts.pop("born in one tick")
    assert counts == {
        "compared: other": rounds,
        "alive: False": rounds,
        "reopened: gone": rounds,
        "signal: gone": rounds,
        "group: refused": rounds,
        "strangers that live on": rounds,
    }
    # The control: by number and tick alone these are one process; on a busy machine few are born in one tick.
    assert in_one_tick >= 1


@pytest.mark.parametrize("rounds", [10, pytest.param(200, marks=pytest.mark.deep)])
def test_without_descriptors_the_tick_tells_a_stranger(inside: Callable[..., Any], rounds: int) -> None:
    counts = inside("reuse_without_descriptors", str(rounds), timeout=30 + rounds / 2)
    assert counts == {
        "reopened: gone": rounds,
        "signal: gone": rounds,
        "group: refused": rounds,
        "strangers that live on": rounds,
    }


@pytest.mark.parametrize("place", ["ordinary", "no descriptors", "no group signals"])
def test_a_stranger_that_comes_right_before_the_signal_does_not_get_it(inside: Callable[..., Any], place: str) -> None:
    """The reuse is real; when it happens is chosen, by standing in for the last question that is asked before."""
    assert inside("reuse_at_the_last_moment", place) == {
        "signal": "gone",
        "stranger after signal": True,
        "group": "gone",
        "stranger after group": True,
    }


def test_a_stranger_that_comes_while_the_process_is_reopened_is_not_taken_for_it(inside: Callable[..., Any]) -> None:
    """The hold comes first and the look after it."""
    assert inside("reuse_while_reopening") == {"reopened": "gone", "left open": []}

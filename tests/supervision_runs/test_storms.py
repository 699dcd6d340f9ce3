"""The same executions asked for by many processes at once: one runner for an id, one for a workspace, a clear answer for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.supervision_runs.running import QUICK, WHOLE


def assert_one_runner_each(answer: dict[str, Any], starts: int, ids: int) -> None:
    assert answer["faults"] == []
    counts = answer["counts"]
    assert counts["execution"] + counts.get("conflict: workspace", 0) == starts
    assert ids / 2 <= counts["ran"] <= ids  # the first of each workspace at least


def test_of_many_starters_one_has_its_way_and_all_are_told(inside: Callable[..., Any], rung: str, seed: int) -> None:
    terms = QUICK["storm"]
    assert_one_runner_each(inside("storm", **terms, rung=rung, seed=seed), terms["starts"], terms["ids"])


@pytest.mark.deep
def test_of_ten_thousand_starts_one_has_its_way_and_all_are_told(inside: Callable[..., Any], rung: str, seed: int) -> None:
    terms = WHOLE["storm"]
    answer = inside("storm", timeout=600, max_pids=1400, **terms, rung=rung, seed=seed)
    assert_one_runner_each(answer, terms["starts"], terms["ids"])

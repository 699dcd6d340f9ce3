"""SIGKILL to client, zygote, keeper, starter, init, and to several of them, at every moment of an execution and at random ones.

Each time others ask at once for the same execution and for another one in its workspace. Afterwards there is one record, or
nothing was accepted; no id ran twice, nobody beside another; no status was lost where the keeper lived, and none was invented;
nothing of the job lived on without its keeper; a second `recover` changes no byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.supervision_runs.running import QUICK, WHOLE


def assert_all_held(answer: dict[str, Any], blows: int) -> None:
    assert answer["faults"] == []
    assert answer["blows"] >= blows
    assert min(answer["met"], answer["hit"]) >= answer["blows"] * 0.6  # else too little was tried: some are over by then


def test_at_some_moments(inside: Callable[..., Any], rung: str, seed: int) -> None:
    answer = inside("crashes", rung=rung, seed=seed, **QUICK["crashes"])
    assert_all_held(answer, QUICK["crashes"]["random_moments"])


@pytest.mark.deep
def test_at_every_moment_and_at_random_ones(inside: Callable[..., Any], rung: str, seed: int) -> None:
    terms = WHOLE["crashes"]
    answer = inside("crashes", rung=rung, seed=seed, timeout=3000, max_pids=1200, **terms)
    assert_all_held(answer, terms["random_moments"] + 60 * terms["per_moment"])  # there are more than 80 moments


def test_an_orphaned_job_keeps_its_workspace_until_it_is_recovered(inside: Callable[..., Any], rung: str) -> None:
    """With a namespace the kernel ends it with its keeper, stopped or not."""
    answer = inside("orphan", rung=rung)
    assert answer.pop("found") in ("lost", "orphaned")
    told = (
        {"second": "started", "recover": ["recorded"]}
        if rung == "pidns"
        else {"second": "conflict: workspace", "recover": ["recorded"]}
    )
    assert answer == {**told, "lives": False, "then": 0, "faults": []}


def test_a_daemon_whose_keeper_and_init_are_killed_together(inside: Callable[..., Any], rung: str) -> None:
    """With a namespace the kernel ends it; without one nobody is left to, until `recover` finds it by its environment."""
    answer = inside("unbound", rung=rung)
    assert answer == {"lived": rung == "subreaper", "recover": ["recorded"], "lives": False}

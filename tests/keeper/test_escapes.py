"""Whatever a job does to outlive its end: it is ended, that is proved, and the record says how (tests/keeper/escapes.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fable_exec.keeper.leaf import make_leaf
from tests.keeper import escapes
from tests.keeper.scenes import NEEDS

pytestmark = pytest.mark.requires_ability("pid_namespace", "own_pid_max", "own_proc", "pidfd")
RUNGS = [pytest.param(rung, marks=pytest.mark.requires_ability(*NEEDS[rung])) for rung in NEEDS]


def assert_all_ended(answer: dict[str, Any], names: tuple[str, ...], rung: str) -> None:
    assert {found["shape"]: (found["wrong"], found["descendants"]) for found in answer["findings"] if found["wrong"]} == {}
    assert {found["shape"] for found in answer["findings"]} == set(names)
    assert {found["containment"] for found in answer["findings"]} == {rung}
    assert answer["touched"] == []


@pytest.mark.alone
@pytest.mark.parametrize("rung", RUNGS)
def test_every_tree_is_ended_and_proved_among_five_hundred_strangers(rung: str, tmp_path: Path) -> None:
    answer = escapes.in_a_box(rung, *escapes.TAME, cwd=tmp_path)
    assert_all_ended(answer, escapes.TAME, rung)
    assert answer["strangers"] == 505


@pytest.mark.alone
@pytest.mark.parametrize("rung", RUNGS)
def test_whoever_forks_without_end_is_ended_and_proved(rung: str, tmp_path: Path) -> None:
    names = escapes.ENDLESS if rung == "pidns" else escapes.ENDLESS[:2]  # all of them by the ten rounds
    answer = escapes.in_a_box(rung, *names, cwd=tmp_path, count=50, max_pids=escapes.FEWER_PIDS)
    assert_all_ended(answer, names, rung)


@pytest.mark.alone
@pytest.mark.parametrize("rung", RUNGS)
def test_in_a_control_group_of_its_own_it_is_the_same(rung: str, tmp_path: Path) -> None:
    leaf = make_leaf("probe")
    if leaf is None:
        pytest.skip("no control group may be made here")
    leaf.end(1.0)
    names = ("hopping family, 4 wide", "bounded bomb", "setsid holder", "daemon by double fork", *sorted(escapes.DEAF))
    answer = escapes.in_a_box(rung, *names, cwd=tmp_path, count=50, max_pids=escapes.FEWER_PIDS, alteration="")
    assert_all_ended(answer, names, "cgroup")


@pytest.mark.deep
@pytest.mark.parametrize("rung", RUNGS)
def test_ten_rounds(rung: str, tmp_path: Path) -> None:
    for _ in range(10):
        assert_all_ended(escapes.in_a_box(rung, *escapes.TAME, cwd=tmp_path), escapes.TAME, rung)
        answer = escapes.in_a_box(rung, *escapes.ENDLESS, cwd=tmp_path, count=50, max_pids=escapes.FEWER_PIDS)
        assert_all_ended(answer, escapes.ENDLESS, rung)


def test_the_table_has_every_kind_and_no_name_twice() -> None:
    names = [shape.name for shape in escapes.SHAPES]
    assert len(names) == len(set(names)) >= 45
    assert {*escapes.DEAF, *escapes.TRACED_LEADERS, *escapes.TAILS} <= set(names)
    assert len(escapes.ENDLESS) >= 7

"""Attempts at breaking out, proved by their controls, on this library: two groups in the quick run, all in the deep one."""

from __future__ import annotations

import functools
import os
from typing import Any

import pytest

from benchmarks.escapes.__main__ import COLUMNS, Column, performed
from benchmarks.escapes.groups import all_attempts
from benchmarks.escapes.report import verdicts
from benchmarks.escapes.world import World

pytestmark = pytest.mark.requires_ability("userns", "own_proc", "landlock")

OURS = [column for column in COLUMNS if column.ours and (column.user != "machine root" or os.geteuid() == 0)]
WEAKER = {each.name for each in all_attempts() if each.weaker}
QUICK = ("outside writes", "inherited descriptors")
LEAST_PROVED = 150


@functools.cache
def control(user: str, group: str) -> dict[str, Any]:
    return performed(World(user=user), "control", group)


def escaped(column: Column, group: str) -> tuple[set[str], int]:
    """What escaped and may not, and how many attempts were proved."""
    found = performed(column.world, column.system, group)
    assert "skipped" not in found, found
    judged = verdicts([each for each in all_attempts() if group in each.name], control(column.control, group), found)
    out = {name for name, verdict in judged.items() if verdict == "escaped"}
    return out - (WEAKER if column.weaker else set()), len(judged)


def test_there_are_attempts_enough_and_each_has_its_name() -> None:
    names = [each.name for each in all_attempts()]
    assert len(names) == len(set(names)) >= LEAST_PROVED


@pytest.mark.parametrize("group", QUICK)
@pytest.mark.parametrize("column", OURS[:1] + OURS[-2:-1], ids=lambda column: column.title)
def test_nothing_of_a_group_gets_out(column: Column, group: str) -> None:
    out, proved = escaped(column, group)
    assert not out
    assert proved >= 7


@pytest.mark.deep
@pytest.mark.parametrize("column", OURS, ids=lambda column: column.title)
def test_nothing_gets_out(column: Column) -> None:
    out, proved = escaped(column, "")
    assert not out
    assert proved >= LEAST_PROVED

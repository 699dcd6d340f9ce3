"""The call always ends, in every launch mode, with every byte and with nothing left; the table is tests/tree_shapes.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import tree_shapes

_SLACK_SECONDS = 10.0
"""For a machine that runs something else as well; `python -m tests.tree_shapes --table` allows none."""


@pytest.mark.alone
@pytest.mark.requires_ability("pid_namespace", "own_pid_max", "own_proc", "pidfd")
@pytest.mark.parametrize("mode", tree_shapes.MODES)
def test_every_tree_ends_in_time_with_every_byte_and_nothing_left(mode: str, tmp_path: Path) -> None:
    answer = tree_shapes.in_a_box(mode, slack=_SLACK_SECONDS, together=3, cwd=tmp_path)
    assert {found["shape"]: found["wrong"] for found in answer["findings"] if found["wrong"]} == {}
    assert answer["left"] == []
    assert len(answer["findings"]) == len(tree_shapes.SHAPES)


@pytest.mark.alone
@pytest.mark.requires_ability("pid_namespace", "own_pid_max", "own_proc", "pidfd")
def test_a_broker_in_a_process_of_its_own_does_the_same(tmp_path: Path) -> None:
    answer = tree_shapes.in_a_box("slots", slack=_SLACK_SECONDS, together=3, cwd=tmp_path, door="spawned")
    assert {found["shape"]: found["wrong"] for found in answer["findings"] if found["wrong"]} == {}
    assert answer["left"] == []


@pytest.mark.deep
@pytest.mark.requires_ability("pid_namespace", "own_pid_max", "own_proc", "pidfd")
@pytest.mark.parametrize("mode", tree_shapes.MODES)
def test_ten_rounds_one_at_a_time(mode: str, tmp_path: Path) -> None:
    for _ in range(10):
        answer = tree_shapes.in_a_box(mode, slack=_SLACK_SECONDS, together=1, cwd=tmp_path)
        assert [found for found in answer["findings"] if found["wrong"]] == []
        assert answer["left"] == []


def test_the_table_has_all_kinds_and_no_name_twice() -> None:
    names = [shape.name for shape in tree_shapes.SHAPES]
    assert len(names) == len(set(names)) >= 40

"""The table of leaks: its quick form, and that every page that shows it says what was found."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks.leaks import frameworks
from benchmarks.leaks.__main__ import NAMES, PAGES, RESULTS, TIMEOUT_SECONDS, tried
from benchmarks.leaks.box import run_in_box
from benchmarks.leaks.report import insert, table
from benchmarks.leaks.scene import CHILDREN
from tests.bounds import bounds

FOUND = json.loads(RESULTS.read_text())
OURS = [name for name in NAMES if FOUND["executors"].get(name, {}).get("ours")]
PATIENCE_SECONDS = 0.3
QUICK_SECONDS = 0.5
DROPPED_BY_THEIR_FRAMEWORK = {"fable_langchain"}


@pytest.mark.parametrize("bound_seconds", bounds(PATIENCE_SECONDS))
@pytest.mark.parametrize("name", ["fable_in_process", "fable_spawned", "fable_asyncio"])
@pytest.mark.requires_ability("confinement")
@pytest.mark.requires_ability("pid_namespace")
def test_nothing_is_left_by_ours_which_returns_in_time_with_the_output(name: str, bound_seconds: float) -> None:
    row = tried(name, sys.executable, QUICK_SECONDS)
    assert (row.get("failed"), row["alive"], row["output_kept"]) == (None, [], True)
    assert QUICK_SECONDS <= row["returned_seconds"] <= QUICK_SECONDS + bound_seconds


@pytest.mark.requires_ability("pid_namespace")
def test_the_same_scene_finds_what_an_executor_leaves() -> None:
    row = tried("subprocess_run", sys.executable, QUICK_SECONDS)
    assert (row["alive"], row["output_kept"]) == ([*CHILDREN], True)


@pytest.mark.deep  # fifteen seconds each
@pytest.mark.parametrize(("name", "left"), [("asyncio_communicate", [*CHILDREN]), ("subprocess_killpg", [*CHILDREN][1:])])
@pytest.mark.requires_ability("pid_namespace")
def test_who_waits_until_the_children_have_ended_is_said_to_have_left_them(name: str, left: list[str]) -> None:
    row = tried(name, sys.executable, QUICK_SECONDS)
    assert row["alive"] == left
    assert row["returned_seconds"] > 15


@pytest.mark.requires_ability("pid_namespace")
def test_an_executor_that_cannot_be_run_has_a_reason_and_no_figure() -> None:
    row = run_in_box(sys.executable, "nobody", QUICK_SECONDS)
    assert row.keys() == {"failed"}
    assert "ModuleNotFoundError" in row["failed"]


def test_a_framework_that_cannot_be_had_has_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(frameworks.NotInstallable, match="No matching distribution found for agno"):
        frameworks.interpreter(tmp_path, "agno")
    monkeypatch.setitem(frameworks._OLDEST_PYTHON, "agno", (3, 99))
    with pytest.raises(frameworks.NotInstallable, match=r"agno==\S+ needs Python 3.99"):
        frameworks.interpreter(tmp_path, "agno")


def test_on_record_ours_left_nothing_and_returned_in_time_with_the_output() -> None:
    assert OURS
    for name in OURS:
        row = FOUND["executors"][name]
        assert (name, row["alive"], row["output_kept"]) == (name, [], name not in DROPPED_BY_THEIR_FRAMEWORK)
        assert row["returned_seconds"] <= TIMEOUT_SECONDS + PATIENCE_SECONDS, name


def test_on_record_is_every_executor_or_why_its_framework_is_not_there() -> None:
    needs = {name: getattr(importlib.import_module(f"benchmarks.leaks.executors.{name}"), "FRAMEWORK", None) for name in NAMES}
    assert set(needs.values()) - {None} == frameworks.REQUIREMENTS.keys()
    assert FOUND["executors"].keys() == {name for name in NAMES if needs[name] not in FOUND["not_installable"]}
    assert all(FOUND["not_installable"].values())
    assert FOUND["not_installable"].keys() <= frameworks.REQUIREMENTS.keys()
    assert not [row for row in FOUND["executors"].values() if "failed" in row]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_a_page_that_shows_the_table_says_what_the_results_say(page: Path, tmp_path: Path) -> None:
    copy = tmp_path / "page.md"
    copy.write_text(page.read_text())
    insert(copy, table(FOUND))
    assert copy.read_text() == page.read_text()
    assert len(re.findall("written by `make leaks`", page.read_text())) == 1

"""Every benchmark still runs, on a few rounds of small inputs without peers, and the tables can be written from what it finds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.lines import environment
from benchmarks.report import markdown, plain
from benchmarks.run import NAMES, _renewed

PROJECT = Path(__file__).resolve().parents[2]
LINUX_ONLY = pytest.mark.skipif(sys.platform != "linux", reason="measures system calls of Linux")
DIFFERENCES = ("import.", "pins.", "assurance.look_up", "supervision.idle")
"""Of these figures: noise may make them anything, and who is idle may use nothing."""


def _some_and_the_others() -> Iterator[Any]:
    """Every sixth one by each run of the suite, others when root runs it; all by the deep runs."""
    for at, name in enumerate(NAMES):
        is_now = at % 6 == 3 * (os.geteuid() == 0)
        yield pytest.param(name, marks=() if is_now else pytest.mark.deep)


def run(tmp_path: Path, name: str) -> list[dict[str, Any]]:
    """The figures of one module, by the command that people use."""
    answer = tmp_path / "figures.json"
    argv = [sys.executable, "-m", "benchmarks.run", name, "--scale=0.01", "--no-peers", f"--directory={tmp_path}"]
    finished = subprocess.run([*argv, f"--json={answer}"], cwd=PROJECT, env=environment(), capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    figures: list[dict[str, Any]] = json.loads(answer.read_text())
    return figures


@LINUX_ONLY
@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("name", [*_some_and_the_others()])
def test_a_module_measures_something_and_leaves_no_file(name: str, tmp_path: Path) -> None:
    figures = run(tmp_path, name)
    keys = [figure["key"] for figure in figures]
    assert keys
    assert len(set(keys)) == len(keys)
    assert all(figure["fable_exec"]["p50_seconds"] > 0 for figure in figures if not figure["key"].startswith(DIFFERENCES))
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]
    assert all(title in plain(figures) for title in (figure["title"] for figure in figures))


def test_every_module_is_run_by_make_bench_or_belongs_to_a_group() -> None:
    modules = {path.stem for path in (PROJECT / "benchmarks/figures").glob("*.py")} - {"__init__"}
    assert modules == set(NAMES)


def test_the_readme_says_what_the_results_say() -> None:
    runs = json.loads((PROJECT / "benchmarks/results.json").read_text("utf-8"))
    assert markdown(runs) in (PROJECT / "benchmarks/README.md").read_text("utf-8")
    assert [run["failed"] for run in runs] == [[]] * len(runs)


def test_a_run_takes_the_place_of_what_was_said_of_its_modules_and_of_nothing_else() -> None:
    def run(date: str, **figures: str) -> dict[str, Any]:
        return {"date": date, "figures": [{"module": module, "key": key} for module, key in figures.items()]}

    earlier = [run("first", frames="a", pins="b"), run("second", probe="c")]
    assert _renewed(earlier, run("third", pins="d", probe="e")) == [run("first", frames="a"), run("third", pins="d", probe="e")]

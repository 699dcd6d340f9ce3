"""Many supervised executions at once: what must be exact is, in a small run always and in a large one by `make deep`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.lines import environment
from benchmarks.supervision.budgets import lines, table

PROJECT = Path(__file__).resolve().parents[2]
COUNTS = [12, pytest.param(450, marks=[pytest.mark.deep, pytest.mark.timeout(300)])]
EXACT = {
    "exact exit codes",
    "stopped, and proved empty",
    "zombies after all exits",
    "zombies at the end",
    "processes left",
    "descriptors left in the host",
    "files that do not belong to an execution",
}


@pytest.mark.requires_ability("pid_namespace", "own_pid_max")
@pytest.mark.parametrize("count", COUNTS)
def test_every_code_is_exact_every_end_is_proved_and_nothing_is_left(count: int, tmp_path: Path) -> None:
    answer = tmp_path / "found.json"
    argv = [sys.executable, "-m", "benchmarks.supervision", f"--count={count}", f"--directory={tmp_path}", f"--json={answer}"]
    finished = subprocess.run(argv, cwd=PROJECT, env=environment(), capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    found: dict[str, Any] = json.loads(answer.read_text())
    verdicts = {line.title: line.is_met for line in lines(found)}
    assert {title: verdicts[title] for title in EXACT} == dict.fromkeys(EXACT, True), finished.stdout
    assert found["running"] == found["count"]
    assert table(found, count) in finished.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]

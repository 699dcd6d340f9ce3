"""A keeper that dies, or whose disk fails, at any system call: no torn record, no outcome lost (faults_program.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.keeper.scenes import NEEDS

RUNGS = [pytest.param(rung, marks=pytest.mark.requires_ability(*NEEDS[rung])) for rung in NEEDS]
ERRORS = ["ENOSPC", "EDQUOT", "EIO", "EROFS", "EINTR"]
SOME = {"pidns": ["ENOSPC", "EINTR"], "subreaper": ["EIO", "EROFS"]}
LIFE = ["nothing", "accepted", "running", "descendants_terminated"]
"""What a record says of the job of the program, from before it was accepted to its end."""


def report(directory: Path, rung: str, every: int, *way: str) -> dict[str, Any]:
    argv = [sys.executable, str(Path(__file__).with_name("faults_program.py")), str(directory), rung, str(every), *way]
    answer = subprocess.run(argv, capture_output=True, text=True, timeout=3000)
    if "] ptrace" in answer.stderr:
        pytest.skip(f"ability ptrace is missing: {answer.stderr.splitlines()[-1]}")
    assert answer.returncode == 0, answer.stderr[-3000:]
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


@pytest.mark.parametrize("every", [71, pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize("rung", RUNGS)
def test_killed_at_any_system_call_it_leaves_a_whole_record_and_no_job(rung: str, every: int, tmp_path: Path) -> None:
    """The job is gone with its keeper, ran once at most, and never without a record that says so."""
    found = report(tmp_path, rung, every, "kill")
    assert found["changes"] == LIFE, "from one to the next, and never back"
    assert found["runs"] >= 600 / every


def _failures() -> Iterator[Any]:
    """(rung, error, every): by default some calls with some errors on each rung, by the deep runs all with all."""
    for rung, needs in NEEDS.items():
        able = pytest.mark.requires_ability(*needs)
        yield from (pytest.param(rung, error, 41, marks=able) for error in SOME[rung])
        yield from (pytest.param(rung, error, 1, marks=[able, pytest.mark.deep]) for error in ERRORS)


@pytest.mark.parametrize(("rung", "error", "every"), [*_failures()])
def test_whatever_call_fails_the_outcome_is_recorded(rung: str, error: str, every: int, tmp_path: Path) -> None:
    """Or nothing was accepted. What is told as launch_failed has not run, what ran is told with its status."""
    found = report(tmp_path, rung, every, "fail", error)
    assert set(found["words"]) <= {"nothing", "launch_failed", "descendants_terminated"}
    assert found["runs"] >= 150 / every


@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize("rung", RUNGS)
def test_a_call_that_does_half_of_its_work_is_asked_again(rung: str, every: int, tmp_path: Path) -> None:
    found = report(tmp_path, rung, every, "halve")
    assert set(found["words"]) == {"descendants_terminated"}

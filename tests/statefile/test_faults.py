"""Every durable act, killed at each system call, and with each call failing or doing half of its work (faults_program.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.statefile.scenes import SCENES

pytestmark = pytest.mark.requires_ability("linux")

WORDS = {
    # scene: what is left before its decisive call, what after
    "first write": ["absent", "new"],
    "replace": ["old", "new"],
    "reserve": ["begun", "certain"],
    "conclude": ["old", "ended"],
    "record": ["old", "ended"],
    "quarantine": ["unreadable", "free"],
    "read": ["ended"],
}
FEWEST_CALLS = {"record": 4}
ERRORS = ["ENOSPC", "EDQUOT", "EIO", "EROFS", "EINTR"]


def report(directory: Path, scene: str, *way: str) -> dict[str, Any]:
    argv = [sys.executable, str(Path(__file__).with_name("faults_program.py")), str(directory), scene, *way]
    answer = subprocess.run(argv, capture_output=True, text=True, timeout=600)
    if "] ptrace" in answer.stderr:
        pytest.skip(f"ability ptrace is missing: {answer.stderr.splitlines()[-1]}")
    assert answer.returncode == 0, answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


@pytest.mark.parametrize("scene", SCENES)
def test_killed_at_any_system_call_it_is_done_or_not_done(scene: str, tmp_path: Path) -> None:
    found = report(tmp_path, scene, "kill")
    assert found["changes"] == WORDS[scene], "from the one to the other, and never back"
    assert found["runs"] >= 2 * FEWEST_CALLS.get(scene, 10)


@pytest.mark.parametrize("scene", SCENES)
def test_whatever_call_fails_the_files_are_whole_and_tidy(scene: str, tmp_path: Path) -> None:
    """Also: an outcome is never lost, no descriptor stays open, and the lock is free while the process lives on."""
    by_error = report(tmp_path, scene, "fail", *ERRORS)
    assert [*by_error] == ERRORS
    for error, found in by_error.items():
        assert found["words"].keys() <= set(WORDS[scene]), error
        assert found["runs"] >= FEWEST_CALLS.get(scene, 10), error
        if scene == "conclude":
            assert found["words"].keys() == {"ended"}, error


@pytest.mark.parametrize("scene", [scene for scene in SCENES if scene != "reserve"])
def test_a_call_that_does_half_of_its_work_is_asked_again(scene: str, tmp_path: Path) -> None:
    found = report(tmp_path, scene, "halve")
    assert found["words"].keys() == {WORDS[scene][-1]}
    assert found["runs"] >= 1


@pytest.mark.deep
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("scene", SCENES)
def test_whatever_two_calls_fail_the_files_are_whole(scene: str, error: str, tmp_path: Path) -> None:
    found = report(tmp_path, scene, "fail-twice", error)
    assert found["words"].keys() <= set(WORDS[scene])
    fewest = FEWEST_CALLS.get(scene, 10)
    assert found["runs"] >= fewest * (fewest - 1) // 2

"""kill -9 of the host, or of the broker it spawned, at any moment: a second later no process of it is left."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bounds import BUSY_SECONDS
from tests.boxes import Finished

PROJECT = Path(__file__).resolve().parents[2]
CASES = [("host", "in_process"), ("host", "spawned"), ("broker", "spawned")]


def killed(
    pid_box: Callable[..., Finished], workspace: Path, tmp_path: Path, victim: str, door: str, times: int, seconds: float
) -> str:
    program = str(Path(__file__).with_name("killing_program.py"))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT), "TMPDIR": str(temporary)}
    argv = [sys.executable, program, str(workspace), victim, door, str(times), "7", str(seconds)]
    finished = pid_box(argv, timeout=80 + 5 * times, env=environment)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize(("victim", "door"), CASES)
def test_nothing_is_left_after_the_kill(
    pid_box: Callable[..., Finished], workspace: Path, tmp_path: Path, victim: str, door: str
) -> None:
    assert killed(pid_box, workspace, tmp_path, victim, door, 3, BUSY_SECONDS) == "3 times nothing left, 0 private directories\n"


@pytest.mark.deep
@pytest.mark.alone
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("victim", "door"), CASES)
def test_nothing_is_left_a_second_after_each_of_fifty_kills(
    pid_box: Callable[..., Finished], workspace: Path, tmp_path: Path, victim: str, door: str
) -> None:
    assert killed(pid_box, workspace, tmp_path, victim, door, 50, 1.0) == "50 times nothing left, 0 private directories\n"

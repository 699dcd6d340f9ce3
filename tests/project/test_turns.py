"""Tests run in several workers at the same time, and one that is marked `alone` runs by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import turns

PROJECT = Path(__file__).resolve().parents[2]
SUITE = """
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent

def meets_another(name):
    "Whether another test was at work while this one was, for SECONDS or until two have met."
    (HERE / f"{name}.busy").touch()
    give_up_at = time.monotonic() + SECONDS
    while len(busy := list(HERE.glob("*.busy"))) == 1 and not (HERE / "met").exists() and time.monotonic() < give_up_at:
        time.sleep(0.005)
    if len(busy) > 1:
        (HERE / "met").touch()
    (HERE / f"{name}.busy").unlink()
    return len(busy) > 1

@pytest.mark.parametrize("number", range(2))
def test_ordinary(number):
    meets_another(f"ordinary {number}")

@pytest.mark.MARK
@pytest.mark.parametrize("number", range(3))
def test_marked(number):
    assert not meets_another(f"marked {number}")
"""


def run(directory: Path, mark: str, seconds: float) -> subprocess.CompletedProcess[str]:
    (directory / "test_suite.py").write_text(SUITE.replace("MARK", mark).replace("SECONDS", str(seconds)))
    options = ["-q", "-n", "2", "-m", "", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "tests.conftest"]
    options += [f"--basetemp={directory / 'temporary'}"]
    argv = [sys.executable, "-m", "pytest", *options, "-c", str(PROJECT / "pyproject.toml"), str(directory)]
    return subprocess.run(argv, cwd=PROJECT, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def test_a_test_that_is_marked_alone_meets_no_other(tmp_path: Path) -> None:
    finished = run(tmp_path, "alone", 0.2)
    assert (finished.returncode, "5 passed" in finished.stdout) == (0, True), finished.stdout + finished.stderr


def test_without_the_mark_it_does_meet_others(tmp_path: Path) -> None:
    """The control: the workers do run at the same time."""
    finished = run(tmp_path, "fuzz", 20)
    assert finished.returncode in (0, 1) and (tmp_path / "met").exists(), finished.stdout + finished.stderr


@pytest.mark.parametrize(("processors", "workers"), [(1, 3), (2, 5), (4, 8), (64, 8)])
def test_there_are_two_workers_for_each_processor_and_one_more_up_to_eight(
    monkeypatch: pytest.MonkeyPatch, processors: int, workers: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(processors)), raising=False)
    assert turns.how_many() == workers

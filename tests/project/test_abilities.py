"""A kernel test that is skipped where it should run is a failure; every skip is counted with its reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import abilities

PROJECT = Path(__file__).resolve().parents[2]
PLUGIN = """
from tests import abilities
abilities.KERNEL["teleport"] = lambda: "the kernel cannot"
abilities.SITUATION["piano"] = lambda: "there is none"
"""
SUITE = """
import pytest

@pytest.mark.requires_ability("{name}")
def test_one(): pass

@pytest.mark.requires_ability("{name}")
def test_two(): pass

def test_three(): pass
"""


def run(directory: Path, name: str, wish: str, workers: str = "0") -> subprocess.CompletedProcess[str]:
    (directory / "test_suite.py").write_text(SUITE.format(name=name))
    (directory / "two_more_abilities.py").write_text(PLUGIN)
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.conftest",
        "-p",
        "two_more_abilities",
        "-c",
        str(PROJECT / "pyproject.toml"),
        "-n",
        workers,
        f"--basetemp={directory / 'temporary'}",
    ]
    return subprocess.run(
        [*argv, str(directory)],
        cwd=PROJECT,
        env={**os.environ, "FABLE_EXEC_REQUIRE_ABILITIES": wish, "PYTHONPATH": str(directory)},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(
    ("name", "wish", "status", "workers"),
    [("teleport", "0", 0, "0"), ("teleport", "1", 1, "0"), ("piano", "1", 0, "0"), ("teleport", "1", 1, "2")],
)
def test_a_missing_ability_skips_and_fails_only_a_kernel_test_that_is_required(
    tmp_path: Path, name: str, wish: str, status: int, workers: str
) -> None:
    finished = run(tmp_path, name, wish, workers)
    assert "1 passed, 2 skipped" in finished.stdout, finished.stdout + finished.stderr
    reason = abilities_reason(name)
    assert reason in finished.stdout
    assert ("2 kernel tests were skipped" in finished.stdout) == (status == 1)
    assert finished.returncode == status


def abilities_reason(name: str) -> str:
    return {
        "teleport": "skipped 2 for want of the kernel ability teleport: the kernel cannot",
        "piano": "skipped 2 for want of the ability piano: there is none",
    }[name]


def test_an_unknown_ability_is_an_error_and_not_a_skip(tmp_path: Path) -> None:
    finished = run(tmp_path, "flying", "0")
    assert finished.returncode not in (0, 1)
    assert "flying" in finished.stdout + finished.stderr


def test_every_kernel_ability_is_here_where_the_machine_should_be_capable() -> None:
    if abilities.machine_should_be_capable():
        assert {name: abilities.missing(name) for name in abilities.KERNEL if abilities.missing(name)} == {}


def test_a_user_is_either_root_or_ordinary() -> None:
    assert bool(abilities.missing("root")) != bool(abilities.missing("ordinary_user"))

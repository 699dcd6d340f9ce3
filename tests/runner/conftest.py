"""A runner for each launch mode, closed and looked after when the test ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fable_exec.runner import Runner
from tests.commands import MODES, new_runner

_NEEDS = {"slots": ("pid_namespace", "own_proc"), "namespace": ("pid_namespace",), "plain": ("linux", "pidfd")}


def every_mode() -> list[object]:
    """The launch modes as parameters, each skipped by the ability it needs."""
    return [pytest.param(mode, marks=pytest.mark.requires_ability(*_NEEDS[mode])) for mode in MODES]


@pytest.fixture(params=every_mode())
def mode(request: pytest.FixtureRequest) -> str:
    """Each launch mode in turn."""
    return str(request.param)


@pytest.fixture
def runner(workspace: Path, mode: str) -> Iterator[Runner]:
    """A runner in that mode."""
    runner = new_runner(workspace, mode)
    yield runner
    runner.close()

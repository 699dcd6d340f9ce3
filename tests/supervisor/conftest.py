"""`jobs`: executions of one test under a root of its own, in workspaces of their own. Nothing of them is alive after the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fable_exec.supervisor import Supervisor
from tests.supervisor.jobs import Jobs


@pytest.fixture(scope="module")
def supervisor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    """One for a file of tests: its zygote starts once."""
    with Supervisor(tmp_path_factory.mktemp("executions") / "root") as opened:
        yield opened


@pytest.fixture
def jobs(supervisor: Supervisor, tmp_path: Path) -> Iterator[Jobs]:
    found = Jobs(supervisor, tmp_path.resolve())
    try:
        yield found
    finally:
        found.end_all()

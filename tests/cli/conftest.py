"""Where the executions of a test lie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fable_exec.lifecycle import Health
from fable_exec.supervisor import Supervisor


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """Where the executions of one test lie. What still runs at its end is stopped, and waited for."""
    directory = tmp_path / "executions"
    yield directory
    with Supervisor(directory) as supervisor:
        for each in supervisor.list():
            if each.health is Health.RUNNING:
                supervisor.request_stop(each.execution_id)
                supervisor.wait(each.execution_id, 20)

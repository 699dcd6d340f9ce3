"""A broker with a known token; every test here leaves no descriptor, thread or child."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fable_exec import ExecutionBroker
from tests.doors import policy_for
from tests.leaks import nothing_left


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    with nothing_left():
        yield


@pytest.fixture
def broker(workspace: Path) -> Iterator[ExecutionBroker]:
    with ExecutionBroker(policy_for(workspace)) as broker:
        yield broker


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A private directory outside the workspace."""
    directory = tmp_path / "admin"
    directory.mkdir(mode=0o700)
    return directory

"""A broker with a known token; every test here leaves no descriptor, thread or child."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fable_exec import ExecutionBroker
from tests.doors import policy_for
from tests.leaving import nothing_is_left  # noqa: F401  # a fixture that every test here gets


@pytest.fixture
def broker(workspace: Path) -> Iterator[ExecutionBroker]:
    with ExecutionBroker(policy_for(workspace)) as broker:
        yield broker


@pytest.fixture
def place() -> Iterator[Path]:
    """A private directory outside the workspace, with a name that leaves room for a socket's (107 bytes)."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory).resolve()

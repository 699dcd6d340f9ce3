"""A broker behind each of its doors; every test here leaves no descriptor, thread or child."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fable_exec import ExecutionBroker
from tests.doors import DOORS, TOKEN, opened, policy_for
from tests.leaving import nothing_is_left  # noqa: F401  # a fixture that every test here gets


@pytest.fixture(params=sorted(DOORS))
def locked_door(request: pytest.FixtureRequest, workspace: Path) -> Iterator[Any]:
    """A broker as it starts, behind every door."""
    with opened(request.param, policy_for(workspace)) as door:
        yield door


@pytest.fixture(params=sorted(DOORS))
def door(request: pytest.FixtureRequest, workspace: Path) -> Iterator[Any]:
    """A broker whose writes are unlocked, behind every door."""
    with opened(request.param, policy_for(workspace), unlocked=True) as door:
        yield door


@pytest.fixture
def broker(workspace: Path) -> Iterator[ExecutionBroker]:
    """A broker in this process whose writes are unlocked."""
    with ExecutionBroker(policy_for(workspace)) as broker:
        broker.unlock_writes(TOKEN)
        yield broker

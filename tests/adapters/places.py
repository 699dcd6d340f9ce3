"""Workspaces for the tests of this room: a policy with a shell, and each kind of broker with the facade over it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from fable_exec import BrokerPolicy
from fable_exec.adapters import AgentWorkspace
from tests.doors import DOORS, PROGRAMS, TOKEN, policy_for

ASYNC_DOORS = ("asyncio", "asyncio_spawned")
DOORS_BELOW_THE_FACADE = ("asyncio", pytest.param("asyncio_spawned", marks=pytest.mark.deep))
"""For what stands on the facade, which is tried over both."""
_T = TypeVar("_T")


def shell_policy(workspace: Path, **more: Any) -> BrokerPolicy:
    """The usual policy, with a shell for texts."""
    return policy_for(workspace, **{"allowed_executables": (*PROGRAMS, "sh"), **more})


def within(
    policy: BrokerPolicy,
    body: Callable[[AgentWorkspace], Awaitable[_T]],
    *,
    door: str = "asyncio",
    view: Any = "host",
    unlocked: bool = False,
) -> _T:
    """What `body` returns, in a workspace over a broker behind `door` that is closed afterwards."""

    async def act() -> _T:
        async with DOORS[door](policy) as broker:
            if unlocked:
                await broker.unlock_writes(TOKEN)
            return await body(AgentWorkspace(broker, view=view))

    return asyncio.run(act())

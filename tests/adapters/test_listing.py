"""A directory with more entries than one answer has is an error, and never a part, wherever a listing is taken for the whole."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fable_exec import AsyncExecutionBroker, BrokerPolicy, PathError
from fable_exec.adapters import AgentWorkspace, BlockingAgentWorkspace
from fable_exec.adapters.deepagents_operations import DeepAgentsOperations
from fable_exec.adapters.listing import every_entry
from fable_exec.adapters.pydantic_ai_operations import PydanticAiOperations
from fable_exec.broker import files
from tests.adapters.places import shell_policy, within

LISTINGS = {"every_entry": every_entry, "pydantic-ai": lambda workspace, path: PydanticAiOperations(workspace).list_dir(path)}


@pytest.fixture
def policy(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> BrokerPolicy:
    """Over a workspace with four files, in one answer."""
    monkeypatch.setattr(files, "MAX_LISTED_ENTRIES", 4)
    for name in "abcd":
        (workspace / name).touch()
    return shell_policy(workspace)


@pytest.mark.parametrize("listed", LISTINGS.values(), ids=LISTINGS)
def test_one_entry_too_many_is_an_error(listed: Callable[[Any, str], Awaitable[Any]], policy: BrokerPolicy) -> None:
    async def body(workspace: AgentWorkspace) -> None:
        assert [each.name for each in await listed(workspace, workspace.root)] == list("abcd")
        Path(workspace.root, "e").touch()
        with pytest.raises(PathError, match="more entries than one answer has: 4") as caught:
            await listed(workspace, workspace.root)
        assert (caught.value.reason, caught.value.errno) == ("too-large", errno.EFBIG)

    within(policy, body)


def test_deepagents_is_told_to_look_for_parts(policy: BrokerPolicy) -> None:
    with BlockingAgentWorkspace(AsyncExecutionBroker(policy)) as workspace:
        backend = DeepAgentsOperations(workspace)
        assert len(backend.ls(workspace.root)["entries"]) == 4
        Path(workspace.root, "e").touch()
        assert backend.ls(workspace.root)["error"].endswith("the directory has more than 4 entries; list parts of it by glob")

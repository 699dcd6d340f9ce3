"""The pydantic-ai backend through pydantic-ai's own suite. Where it is not installed this is skipped.

What the backend does is tried by test_pydantic_ai_operations.py, which does not need it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fable_exec import AsyncExecutionBroker
from fable_exec.adapters import AgentWorkspace
from tests.adapters.places import shell_policy, within
from tests.adapters.suites import suite
from tests.doors import TOKEN, environment_with

PROGRAMS = ("sh", "cat", "pwd", "ln", "mkfifo", "chmod", "id", "true")


def _backend_suite() -> Any:
    from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

    return WorkspaceBackendSuite


@pytest.mark.requires_ability("confinement")
@pytest.mark.requires_ability("pydantic_ai")
class TestByTheirSuite(suite("pydantic_ai", _backend_suite)):
    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    async def backend(self, workspace: Path) -> AsyncIterator[Any]:
        from fable_exec.adapters.pydantic_ai import FableWorkspace

        environment = environment_with(request_names=("CONFORMANCE",))
        policy = shell_policy(workspace, allowed_executables=PROGRAMS, max_output_bytes=1 << 24, environment=environment)
        async with AsyncExecutionBroker(policy) as broker:
            await broker.unlock_writes(TOKEN)
            yield FableWorkspace(AgentWorkspace(broker))

    async def test_absolute_cwd_is_used(self, backend: Any) -> None:
        pytest.skip('their rule starts a command in "/"; ours start in the workspace or below it')


@pytest.mark.requires_ability("pydantic_ai")
def test_a_capability_declines_the_references_of_others(workspace: Path) -> None:
    from pydantic_ai.workspaces import WorkspaceRef

    from fable_exec.adapters.pydantic_ai import FableCapability

    async def body(agent_workspace: AgentWorkspace) -> None:
        capability = FableCapability(agent_workspace)
        own = capability.get_workspace(None, ref=None)
        assert own is not None
        assert capability.get_workspace(None, ref=own.ref) is not None
        assert capability.get_workspace(None, ref=WorkspaceRef(provider="local", id="/etc")) is None

    within(shell_policy(workspace), body)

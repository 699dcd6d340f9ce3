"""The pydantic-ai backend through pydantic-ai's own suite. Where it is not installed this is skipped.

What the backend does is tried by test_pydantic_ai_operations.py, which does not need it; in agents by test_pydantic_ai_agents.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec import AsyncExecutionBroker, BrokerPolicy, Limits, PathDenied
from fable_exec.adapters import AgentWorkspace
from tests.adapters.places import DOORS_BELOW_THE_FACADE, shell_policy, within
from tests.adapters.suites import suite
from tests.doors import DOORS, TOKEN, environment_with

PROGRAMS = ("sh", "cat", "pwd", "ln", "mkfifo", "chmod", "id", "true")
needs_pydantic_ai = pytest.mark.requires_ability("pydantic_ai")


def _backend_suite() -> Any:
    from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

    return WorkspaceBackendSuite


def _policy(workspace: Path) -> BrokerPolicy:
    environment = environment_with(request_names=("CONFORMANCE",))
    limits = Limits(max_frame_bytes=1 << 24)
    return shell_policy(workspace, allowed_executables=PROGRAMS, max_output_bytes=1 << 24, environment=environment, limits=limits)


@attrs.define
class Environments:
    """Brokers by the reference of their workspace."""

    _brokers: dict[Any, Any] = attrs.field(factory=dict)

    def backend(self, broker: Any) -> Any:
        from fable_exec.adapters.pydantic_ai import FableWorkspace

        backend = FableWorkspace(AgentWorkspace(broker))
        self._brokers[backend.ref] = broker
        return backend

    def own_backend(self, directory: Path) -> Any:
        broker = AsyncExecutionBroker(_policy(directory))
        broker.blocking.unlock_writes(TOKEN)
        return self.backend(broker)

    def attached(self, ref: Any) -> Any:
        from fable_exec.adapters.pydantic_ai import FableCapability

        return FableCapability(AgentWorkspace(self._brokers[ref])).get_workspace(None, ref=ref)

    async def destroy(self, backend: Any) -> None:
        await self._brokers[backend.ref].close()

    async def destroy_all(self) -> None:
        for broker in self._brokers.values():
            await broker.close()


@pytest.mark.requires_ability("confinement")
@needs_pydantic_ai
class TestByTheirSuite(suite("pydantic_ai", _backend_suite)):
    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    async def environments(self) -> AsyncIterator[Environments]:
        environments = Environments()
        yield environments
        await environments.destroy_all()

    @pytest.fixture(params=DOORS_BELOW_THE_FACADE)
    async def backend(self, request: pytest.FixtureRequest, environments: Environments, workspace: Path) -> AsyncIterator[Any]:
        async with DOORS[request.param](_policy(workspace)) as broker:
            await broker.unlock_writes(TOKEN)
            yield environments.backend(broker)

    @pytest.fixture
    def destructive_backend(self, environments: Environments, workspace: Path) -> Callable[[], Any]:
        return lambda: environments.own_backend(workspace)

    @pytest.fixture
    def attach_backend(self, environments: Environments) -> Callable[[Any], Any]:
        return environments.attached

    @pytest.fixture
    def destroy_environment(self, environments: Environments) -> Callable[[Any], Any]:
        return environments.destroy

    async def test_a_backend_attached_by_ref_reaches_a_detached_process(self) -> None:
        pytest.skip("against our promise: a process that a command detached is ended with the command, and not found later")


@needs_pydantic_ai
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


@needs_pydantic_ai
@pytest.mark.requires_ability("confinement")
def test_the_broker_starts_a_command_in_another_directory_and_no_shell_is_needed(workspace: Path) -> None:
    from fable_exec.adapters.pydantic_ai import FableCapability

    (workspace / "sub").mkdir()
    (workspace / "file").write_text("")
    (workspace / "link").symlink_to("sub")
    (workspace / "out").symlink_to("/")

    async def body(agent_workspace: AgentWorkspace) -> None:
        backend = FableCapability(agent_workspace).get_workspace(None, ref=None)
        for cwd in ("sub", f"{workspace}/sub", "link", "./file/../sub"):
            assert (await backend.run(["pwd"], cwd=cwd)).stdout == f"{workspace}/sub\n", cwd
        assert (await backend.run(["pwd"])).stdout == f"{workspace}\n"
        assert "allow-list" in (await backend.run(["ls"], cwd="sub")).stderr
        with pytest.raises(FileNotFoundError):
            await backend.run(["pwd"], cwd="none")
        with pytest.raises(NotADirectoryError):
            await backend.run(["pwd"], cwd="file")
        for cwd in ("/", "..", "out"):
            with pytest.raises(PathDenied):
                await backend.run(["pwd"], cwd=cwd)

    within(shell_policy(workspace, allowed_executables=("pwd",)), body)


@needs_pydantic_ai
def test_what_is_gone_is_unavailable_for_every_operation(workspace: Path) -> None:
    from pydantic_ai.workspaces import WorkspaceUnavailableError

    from fable_exec.adapters.pydantic_ai import FableWorkspace

    at = str(workspace)

    async def all_fail(backend: Any) -> None:
        for act in (
            backend.working_dir(), backend.run(["true"]), backend.run("true", shell=True), backend.read_bytes(f"{at}/x"),
            backend.write_bytes(f"{at}/x", b""), backend.stat(at), backend.list_dir(at), backend.make_dir(f"{at}/x"),
            backend.remove(f"{at}/x"), backend.exists(f"{at}/x"), backend.realpath(at),
        ):  # fmt: skip
            with pytest.raises(WorkspaceUnavailableError):
                await act

    async def act() -> None:
        async with AsyncExecutionBroker(shell_policy(workspace)) as broker:
            await broker.unlock_writes(TOKEN)
            backend = FableWorkspace(AgentWorkspace(broker))
            assert await backend.working_dir() == at
            workspace.rename(workspace.with_name("elsewhere"))
            with pytest.raises(WorkspaceUnavailableError, match="workspace-moved"):
                await backend.run(["true"])
            workspace.with_name("elsewhere").rmdir()
            await all_fail(backend)
        await all_fail(backend)

    asyncio.run(act())

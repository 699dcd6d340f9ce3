"""The deepagents backend in deepagents, and through the suite of langchain-tests. Where they are not installed this is skipped.

What the backend does is tried by test_deepagents_operations.py, which needs neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fable_exec import AsyncExecutionBroker
from fable_exec.adapters import BlockingAgentWorkspace
from tests.adapters.places import shell_policy
from tests.adapters.suites import suite
from tests.doors import TOKEN

PROGRAMS = ("sh", "cat", "wc", "rm", "mkdir", "touch", "chmod", "seq")
needs_deepagents = pytest.mark.requires_ability("deepagents")


def _sandbox_tests() -> Any:
    from langchain_tests.integration_tests import SandboxIntegrationTests

    return SandboxIntegrationTests


@pytest.mark.requires_ability("confinement")
@pytest.mark.requires_ability("langchain_tests")
class TestBySandboxTests(suite("langchain_tests", _sandbox_tests)):
    @pytest.fixture(scope="class")
    def sandbox(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
        from fable_exec.adapters.deepagents import FableBackend

        type(self).root = tmp_path_factory.mktemp("sandbox").resolve()
        broker = AsyncExecutionBroker(shell_policy(self.root, allowed_executables=PROGRAMS, max_output_bytes=1 << 24))
        with BlockingAgentWorkspace(broker) as workspace:
            workspace.call(lambda _: broker.unlock_writes(TOKEN))
            yield FableBackend(workspace)

    @property
    def sandbox_root_dir(self) -> str:
        return str(self.root)

    @property
    def has_async(self) -> bool:
        return False  # they need a mode of pytest-asyncio that this suite does not run in


@needs_deepagents
@pytest.mark.requires_ability("confinement")
def test_the_backend_gives_deepagents_own_answers(workspace: Path) -> None:
    from deepagents.backends import protocol

    from fable_exec.adapters.deepagents import FableBackend

    with BlockingAgentWorkspace(AsyncExecutionBroker(shell_policy(workspace)), view="root") as agent_workspace:
        backend = FableBackend(agent_workspace)
        assert isinstance(backend, protocol.SandboxBackendProtocol)
        assert backend.execute("echo hi") == protocol.ExecuteResponse(output="hi\n", exit_code=0, truncated=False)
        assert backend.write("/file", "x").error
        assert backend.download_files(["/none"]) == [protocol.FileDownloadResponse(path="/none", error="file_not_found")]

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run
from fable_exec import AsyncExecutionBroker, BrokerPolicy
from fable_exec.adapters import AgentWorkspace

TITLE = "pydantic-ai, `FableWorkspace`"
OURS = True
FRAMEWORK = "pydantic-ai"


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    from pydantic_ai.workspaces import WorkspaceTimeoutError

    from fable_exec.adapters.pydantic_ai import FableWorkspace

    with asyncio.Runner() as runner:
        broker = AsyncExecutionBroker(BrokerPolicy(workspace=workspace, allowed_executables=["sh"]))
        backend = FableWorkspace(AgentWorkspace(broker))

        async def asynchronously(text: str, seconds: float) -> str:
            try:
                return str((await backend.run(text, shell=True, timeout=seconds)).stdout)
            except WorkspaceTimeoutError as error:
                return str(error.stdout)

        runner.run(broker.__aenter__())
        try:
            yield lambda text, seconds: runner.run(asynchronously(text, seconds))
        finally:
            runner.run(broker.close())

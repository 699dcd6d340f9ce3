from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run
from fable_exec import AsyncExecutionBroker, BrokerPolicy
from fable_exec.adapters import AgentWorkspace
from fable_exec.adapters.pydantic_ai_operations import PydanticAiOperations

TITLE = "`PydanticAiOperations`, without pydantic-ai"
OURS = True


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    with asyncio.Runner() as runner:
        broker = AsyncExecutionBroker(BrokerPolicy(workspace=workspace, allowed_executables=["sh"]))
        operations = PydanticAiOperations(AgentWorkspace(broker))

        async def asynchronously(text: str, seconds: float) -> str:
            return (await operations.run(text, is_text=True, timeout=seconds)).stdout_text

        runner.run(broker.__aenter__())
        try:
            yield lambda text, seconds: runner.run(asynchronously(text, seconds))
        finally:
            runner.run(broker.close())

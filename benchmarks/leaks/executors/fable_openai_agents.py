from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run
from fable_exec import AsyncExecutionBroker, BrokerPolicy
from fable_exec.adapters import AgentWorkspace
from fable_exec.adapters.openai_agents_operations import OpenAiAgentsOperations

TITLE = "`OpenAiAgentsOperations`, without the SDK"
OURS = True


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    with asyncio.Runner() as runner:
        broker = AsyncExecutionBroker(BrokerPolicy(workspace=workspace, allowed_executables=["sh"]))
        operations = OpenAiAgentsOperations(AgentWorkspace(broker))

        async def asynchronously(text: str, seconds: float) -> str:
            return (await operations.run([text], timeout_ms=int(seconds * 1000)))[0].stdout

        runner.run(broker.__aenter__())
        try:
            yield lambda text, seconds: runner.run(asynchronously(text, seconds))
        finally:
            runner.run(broker.close())

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run
from fable_exec import AsyncExecutionBroker, BrokerPolicy
from fable_exec.adapters import AgentWorkspace

TITLE = "OpenAI Agents SDK, `shell_tool`"
OURS = True
FRAMEWORK = "openai-agents"


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    from agents import RunContextWrapper, ShellActionRequest, ShellCallData, ShellCommandRequest

    from fable_exec.adapters.openai_agents import shell_tool

    with asyncio.Runner() as runner:
        broker = AsyncExecutionBroker(BrokerPolicy(workspace=workspace, allowed_executables=["sh"]))
        tool = shell_tool(AgentWorkspace(broker))

        async def asynchronously(text: str, seconds: float) -> str:
            action = ShellActionRequest(commands=[text], timeout_ms=int(seconds * 1000))
            request = ShellCommandRequest(RunContextWrapper(None), ShellCallData(call_id="leaks", action=action))
            return str((await tool.executor(request)).output[0].stdout)

        runner.run(broker.__aenter__())
        try:
            yield lambda text, seconds: runner.run(asynchronously(text, seconds))
        finally:
            runner.run(broker.close())

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run

TITLE = "OpenAI Agents SDK, `FableSandboxClient`"
OURS = True
FRAMEWORK = "openai-agents"


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    """In a directory that the client makes, as it does by default."""
    from agents.sandbox.errors import ExecTimeoutError

    from fable_exec.adapters.openai_agents_sandbox import FableSandboxClient

    with asyncio.Runner() as runner:
        client = FableSandboxClient()
        session = runner.run(client.create())
        runner.run(session.start())

        async def asynchronously(text: str, seconds: float) -> str:
            try:
                return bytes((await session.exec(text, timeout=seconds)).stdout).decode()
            except ExecTimeoutError as error:
                return f"{error} {error.context}"

        try:
            yield lambda text, seconds: runner.run(asynchronously(text, seconds))
        finally:
            runner.run(client.delete(session))

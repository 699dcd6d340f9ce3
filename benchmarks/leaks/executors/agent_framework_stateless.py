from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run

TITLE = 'agent-framework `LocalShellTool(mode="stateless")`'
OURS = False
FRAMEWORK = "agent-framework"


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    from agent_framework_tools.shell import LocalShellTool

    shell = LocalShellTool(workdir=str(workspace), mode="stateless")

    async def asynchronously(text: str, seconds: float) -> str:
        return str((await shell.run(text, timeout=seconds)).stdout)

    with asyncio.Runner() as runner:
        yield lambda text, seconds: runner.run(asynchronously(text, seconds))

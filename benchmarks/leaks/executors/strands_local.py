from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run

TITLE = "Strands `NotASandboxLocalEnvironment`"
OURS = False
FRAMEWORK = "strands-agents"


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    from strands.sandbox.errors import SandboxTimeoutError
    from strands.sandbox.not_a_sandbox_local_environment import NotASandboxLocalEnvironment

    sandbox = NotASandboxLocalEnvironment()

    async def asynchronously(text: str, seconds: float) -> str:
        try:
            return str((await sandbox.execute(text, timeout=seconds, cwd=str(workspace))).stdout)
        except SandboxTimeoutError as error:
            return str(error.stdout)

    with asyncio.Runner() as runner:
        yield lambda text, seconds: runner.run(asynchronously(text, seconds))

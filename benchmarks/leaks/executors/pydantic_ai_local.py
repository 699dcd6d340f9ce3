from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run

TITLE = "pydantic-ai `LocalWorkspaceBackend`"
OURS = False
FRAMEWORK = "pydantic-ai"


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    from pydantic_ai.workspaces import LocalWorkspaceBackend, WorkspaceTimeoutError

    backend = LocalWorkspaceBackend(workspace)

    async def asynchronously(text: str, seconds: float) -> str:
        try:
            return str((await backend.run(text, shell=True, timeout=seconds)).stdout)
        except WorkspaceTimeoutError as error:
            return str(error.stdout)

    with asyncio.Runner() as runner:
        yield lambda text, seconds: runner.run(asynchronously(text, seconds))

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run

TITLE = "google-adk `LocalEnvironment`"
OURS = False
FRAMEWORK = "google-adk"


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    from google.adk.environment import LocalEnvironment

    environment = LocalEnvironment(working_dir=workspace)

    async def asynchronously(text: str, seconds: float) -> str:
        return str((await environment.execute(text, timeout=seconds)).stdout)

    with asyncio.Runner() as runner:
        runner.run(environment.initialize())
        yield lambda text, seconds: runner.run(asynchronously(text, seconds))

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run

TITLE = "inspect-ai `LocalSandboxEnvironment`"
OURS = False
FRAMEWORK = "inspect-ai"


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    """In the directory that a sample is given."""
    from inspect_ai.util._sandbox.local import LocalSandboxEnvironment

    with asyncio.Runner() as runner:
        sample = runner.run(LocalSandboxEnvironment.sample_init("leaks", None, {}))["default"]

        async def asynchronously(text: str, seconds: float) -> str:
            try:
                return str((await sample.exec(["sh", "-c", text], timeout=int(seconds))).stdout)
            except TimeoutError as error:
                return str(getattr(error, "truncated_output", None) or error)

        yield lambda text, seconds: runner.run(asynchronously(text, seconds))

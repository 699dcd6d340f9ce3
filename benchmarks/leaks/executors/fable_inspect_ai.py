from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run
from fable_exec.adapters.inspect_ai_operations import InspectOperations

TITLE = "`InspectOperations`, without inspect-ai"
OURS = True


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    """In a directory that the operations make themselves, as inspect-ai's samples are."""
    with asyncio.Runner() as runner:
        sample = runner.run(InspectOperations.open())

        async def asynchronously(text: str, seconds: float) -> str:
            return (await sample.execute(["sh", "-c", text], timeout=seconds)).stdout_text

        try:
            yield lambda text, seconds: runner.run(asynchronously(text, seconds))
        finally:
            runner.run(sample.close())

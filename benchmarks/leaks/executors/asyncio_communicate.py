from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run

TITLE = "`asyncio.create_subprocess_exec`, `wait_for(communicate())`, `kill`, `wait`"
OURS = False


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    async def asynchronously(text: str, seconds: float) -> str:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec("sh", "-c", text, cwd=workspace, stdout=pipe, stderr=pipe)
        try:
            return (await asyncio.wait_for(process.communicate(), seconds))[0].decode()
        except TimeoutError:
            process.kill()
            await process.wait()
            return ""

    with asyncio.Runner() as runner:
        yield lambda text, seconds: runner.run(asynchronously(text, seconds))

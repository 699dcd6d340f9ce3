from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run

TITLE = "SWE-ReX `LocalRuntime.execute`"
OURS = False
FRAMEWORK = "swe-rex"


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    from swerex.exceptions import CommandTimeoutError
    from swerex.runtime.abstract import Command
    from swerex.runtime.local import LocalRuntime

    runtime = LocalRuntime()

    async def asynchronously(text: str, seconds: float) -> str:
        try:
            done = await runtime.execute(Command(command=text, shell=True, timeout=seconds, cwd=str(workspace)))
        except CommandTimeoutError as error:
            return str(error)
        return str(done.stdout)

    with asyncio.Runner() as runner:
        yield lambda text, seconds: runner.run(asynchronously(text, seconds))

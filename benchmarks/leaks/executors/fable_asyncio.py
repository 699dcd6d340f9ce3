from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run
from fable_exec import AsyncExecutionBroker, BrokerPolicy

TITLE = "`AsyncExecutionBroker`"
OURS = True


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    with asyncio.Runner() as runner:
        broker = AsyncExecutionBroker(BrokerPolicy(workspace=workspace, allowed_executables=["sh"]))

        async def asynchronously(text: str, seconds: float) -> str:
            return (await broker.execute_command(["sh", "-c", text], timeout_seconds=seconds)).stdout

        runner.run(broker.__aenter__())
        try:
            yield lambda text, seconds: runner.run(asynchronously(text, seconds))
        finally:
            runner.run(broker.__aexit__(None, None, None))

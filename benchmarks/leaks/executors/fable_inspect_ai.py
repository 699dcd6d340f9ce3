from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run

TITLE = "inspect-ai, sandbox `fable`"
OURS = True
FRAMEWORK = "inspect-ai"


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    """In the directory that a sample is given."""
    from fable_exec.adapters.inspect_ai import FableSandboxEnvironment

    with asyncio.Runner() as runner:
        samples = runner.run(FableSandboxEnvironment.sample_init("leaks", None, {}))

        async def asynchronously(text: str, seconds: float) -> str:
            try:
                return str((await samples["default"].exec(["sh", "-c", text], timeout=int(seconds))).stdout)
            except TimeoutError as error:
                return str(getattr(error, "truncated_output", None) or error)

        try:
            yield lambda text, seconds: runner.run(asynchronously(text, seconds))
        finally:
            runner.run(FableSandboxEnvironment.sample_cleanup("leaks", None, samples, False))

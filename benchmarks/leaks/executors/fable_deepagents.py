from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run
from fable_exec import AsyncExecutionBroker, BrokerPolicy

TITLE = "deepagents, `FableBackend`"
OURS = True
FRAMEWORK = "deepagents"


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    from fable_exec.adapters import BlockingAgentWorkspace
    from fable_exec.adapters.deepagents import FableBackend

    policy = BrokerPolicy(workspace=workspace, allowed_executables=["sh"])
    with BlockingAgentWorkspace(AsyncExecutionBroker(policy)) as agent_workspace:
        backend = FableBackend(agent_workspace)
        yield lambda text, seconds: str(backend.execute(text, timeout=int(seconds)).output)

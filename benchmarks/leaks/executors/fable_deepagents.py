from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run
from fable_exec import AsyncExecutionBroker, BrokerPolicy
from fable_exec.adapters import BlockingAgentWorkspace
from fable_exec.adapters.deepagents_operations import DeepAgentsOperations

TITLE = "`DeepAgentsOperations`, without deepagents"
OURS = True


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    policy = BrokerPolicy(workspace=workspace, allowed_executables=["sh"])
    with BlockingAgentWorkspace(AsyncExecutionBroker(policy)) as agent_workspace:
        operations = DeepAgentsOperations(agent_workspace)
        yield lambda text, seconds: str(operations.execute(text, seconds)["output"])

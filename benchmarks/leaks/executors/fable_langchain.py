from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run
from fable_exec import AsyncExecutionBroker, BrokerPolicy

TITLE = "LangChain `ShellSession`, `FableExecutionPolicy`"
OURS = True
FRAMEWORK = "langchain"


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    from langchain.agents.middleware.shell_tool import ShellSession

    from fable_exec.adapters import BlockingAgentWorkspace
    from fable_exec.adapters.langchain import FableExecutionPolicy

    broker = AsyncExecutionBroker(BrokerPolicy(workspace=workspace, allowed_executables=["bash"]))
    with BlockingAgentWorkspace(broker) as agent_workspace:
        policy = FableExecutionPolicy(agent_workspace=agent_workspace)
        session = ShellSession(workspace, policy, ("/bin/bash",), {})
        session.start()
        try:
            yield lambda text, seconds: session.execute(text, timeout=seconds).output
        finally:
            session.stop(policy.termination_timeout)

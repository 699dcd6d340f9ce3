from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run

TITLE = "LangChain `ShellSession`, `HostExecutionPolicy`"
OURS = False
FRAMEWORK = "langchain"


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    from langchain.agents.middleware import HostExecutionPolicy
    from langchain.agents.middleware.shell_tool import ShellSession

    policy = HostExecutionPolicy()
    session = ShellSession(workspace, policy, ("/bin/bash",), dict(os.environ))
    session.start()
    try:
        yield lambda text, seconds: session.execute(text, timeout=seconds).output
    finally:
        session.stop(policy.termination_timeout)

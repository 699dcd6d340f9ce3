from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run

TITLE = "mini-swe-agent `LocalEnvironment`"
OURS = False
FRAMEWORK = "mini-swe-agent"


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    from minisweagent.environments.local import LocalEnvironment

    environment = LocalEnvironment(cwd=str(workspace))
    yield lambda text, seconds: str(environment.execute({"command": text}, timeout=int(seconds))["output"])

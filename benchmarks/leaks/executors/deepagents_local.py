from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run

TITLE = "deepagents `LocalShellBackend`"
OURS = False
FRAMEWORK = "deepagents"


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    from deepagents.backends import LocalShellBackend

    backend = LocalShellBackend(root_dir=workspace)
    yield lambda text, seconds: str(backend.execute(text, timeout=int(seconds)).output)

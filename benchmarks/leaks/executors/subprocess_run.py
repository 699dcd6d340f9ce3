from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run

TITLE = "`subprocess.run(timeout=)`"
OURS = False


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    def run(text: str, seconds: float) -> str:
        try:
            done = subprocess.run(["sh", "-c", text], cwd=workspace, capture_output=True, timeout=seconds)
        except subprocess.TimeoutExpired as error:
            return (error.stdout or b"").decode()
        return done.stdout.decode()

    yield run

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run

TITLE = "`Popen(start_new_session=True)`, `killpg`, `communicate`"
OURS = False


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    def run(text: str, seconds: float) -> str:
        process = subprocess.Popen(
            ["sh", "-c", text], cwd=workspace, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        try:
            return process.communicate(timeout=seconds)[0].decode()
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return process.communicate()[0].decode()

    yield run

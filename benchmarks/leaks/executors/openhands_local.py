from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run

TITLE = "OpenHands `LocalWorkspace`"
OURS = False
FRAMEWORK = "openhands"


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    from openhands.sdk.workspace import LocalWorkspace

    with LocalWorkspace(working_dir=workspace) as local:
        yield lambda text, seconds: str(local.execute_command(text, timeout=seconds).stdout)

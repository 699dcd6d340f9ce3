from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run
from fable_exec import BrokerPolicy, ExecutionBroker

TITLE = "`ExecutionBroker`"
OURS = True


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    with ExecutionBroker(BrokerPolicy(workspace=workspace, allowed_executables=["sh"])) as broker:
        yield lambda text, seconds: broker.execute_command(["sh", "-c", text], timeout_seconds=seconds).stdout

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaks.executors import Run

TITLE = "agno `CodingTools.run_shell`"
OURS = False
FRAMEWORK = "agno"


@contextmanager
def executor(workspace: Path) -> Iterator[Run]:
    """With shell text, which it only takes like this."""
    from agno.tools.coding import CodingTools

    tools = CodingTools(base_dir=workspace, restrict_to_base_dir=False)
    yield lambda text, seconds: str(tools.run_shell(text, timeout=int(seconds)))

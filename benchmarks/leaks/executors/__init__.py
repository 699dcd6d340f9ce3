"""One module an executor: TITLE, FRAMEWORK where it needs one, and `executor(workspace)`, which gives out `run(text, seconds)`.

`run` gives shell text to the executor with a timeout, by the calls that its documentation shows, and returns the output that the
caller of the executor is left with. A time limit that ends in an exception is not an error here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

__all__ = ["Executor", "Run"]

Run = Callable[[str, float], str]


class Executor(Protocol):
    """What a module of this package is."""

    TITLE: str
    OURS: bool

    def executor(self, workspace: Path) -> AbstractContextManager[Run]: ...

"""How far a digest is, for whoever watches a terminal: nothing elsewhere, and nothing for what takes no time."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from fable_exec.cli.showing import people_console
from fable_exec.treedigest import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

__all__ = ["shown_progress"]

_PATIENCE_SECONDS = 0.3
_REFRESH_SECONDS = 0.1


@contextlib.contextmanager
def shown_progress() -> Iterator[Callable[[Progress], None] | None]:
    """What to call with the progress; it draws on standard error, and at the end of the block all is wiped away."""
    if not os.isatty(2):
        yield None
        return
    with contextlib.ExitStack() as stack:
        drawing = _Drawing(stack)
        yield drawing.update


class _Drawing:
    """Starts to draw when it has taken a while; draws in the calling thread."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._next_seconds = time.monotonic() + _PATIENCE_SECONDS
        self._bar: Bar | None = None

    def update(self, progress: Progress) -> None:
        now = time.monotonic()
        if now < self._next_seconds:
            return
        self._next_seconds = now + _REFRESH_SECONDS
        if self._bar is None:
            self._bar = self._stack.enter_context(_bar())
            self._bar.add_task("", total=None)
        self._bar.update(self._bar.task_ids[0], completed=progress.size_bytes, description=f"{progress.files} files")
        self._bar.refresh()


def _bar() -> Bar:
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    return Bar(*columns, console=people_console(is_terminal=True), transient=True, auto_refresh=False, redirect_stdout=False)

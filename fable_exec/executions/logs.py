"""Open a log of an execution for appending, if it is a file that only this user can have put there. It never waits for a FIFO."""

from __future__ import annotations

import os
from pathlib import Path

from fable_exec.privatefiles import open_private

__all__ = ["open_log"]


def open_log(path: Path | str) -> int:
    """A descriptor of the log, the caller's; made if need be. Raises OSError, NotPrivate for what is no such file."""
    return open_private(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

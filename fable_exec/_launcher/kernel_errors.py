"""The kernel's -1 as an OSError with its errno and a note that names the call. `ctypes.get_errno` is asked before all else."""

from __future__ import annotations

import ctypes
import os


def checked(result: int, call: str, path: str | None = None) -> int:
    """`result`, unless it is -1. Raises OSError, about `path` where there is one."""
    if result != -1:
        return result
    number = ctypes.get_errno()
    error = OSError(number, os.strerror(number), path)
    error.add_note(call)
    raise error

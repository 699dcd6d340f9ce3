"""Open a log of an execution for appending, if it is a file that only this user can have put there. It never waits for a FIFO."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from fable_exec.privatefiles import fault_of

__all__ = ["open_log"]

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK if os.name != "nt" else os.O_WRONLY


def open_log(path: Path | str) -> int:
    """A descriptor of the log, the caller's; made if need be. Raises OSError, with EINVAL for what is no such file."""
    fd = os.open(path, _FLAGS, 0o600)
    fault = fault_of(os.fstat(fd))
    if fault is None:
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, fault.value, str(path))

"""Wake a keeper: a FIFO in its execution's directory, which only its user can open (fifo(7)).

What is said is always in state.json; the bell only says that there is something to read. So a byte too many does no harm, and a
ringer that dies loses nothing.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from fable_exec.executions.names import BELL_NAME
from fable_exec.privatefiles import OPENING

__all__ = ["hang", "hear", "ring"]

_RING = b"!"
_BYTES = 4096


def hang(directory: Path) -> int:
    """A descriptor that is readable once somebody rang; the FIFO is made anew. Raises OSError."""
    path = directory / BELL_NAME
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    os.mkfifo(path, 0o600)
    # For writing too: with a writer of our own there is never an end of the file.
    return os.open(path, os.O_RDWR | OPENING)


def hear(fd: int) -> None:
    """Take what was rung, so that the next ring is seen."""
    try:
        os.read(fd, _BYTES)
    except BlockingIOError:
        pass


def ring(directory: Path) -> bool:
    """Wake the keeper; whether there is one that listens. Never waits. Raises OSError."""
    try:
        fd = os.open(directory / BELL_NAME, os.O_WRONLY | OPENING)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return False
        raise
    try:
        os.write(fd, _RING)
    except BlockingIOError:
        pass  # it is full of rings already
    except BrokenPipeError:
        return False
    finally:
        os.close(fd)
    return True

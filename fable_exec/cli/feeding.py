"""Our standard input as a command's standard input, for as long as it takes any."""

from __future__ import annotations

import os
import sys
import threading

from fable_exec._sys.inherited import read_patiently
from fable_exec.broker import StartedCommand
from fable_exec.errors import FableExecError

__all__ = ["feed_in_background", "is_left_unread"]

_STDIN = 0
_READ_BYTES = 1 << 16


def feed_in_background(started: StartedCommand) -> None:
    """Hand over what can be read until its end; the command sees that end too.

    The thread is a daemon: nothing can wake it from a terminal that nobody types at, and this process ends with the command.
    """
    threading.Thread(target=_feed, args=(started,), name="fable_exec stdin", daemon=True).start()


def is_left_unread() -> bool:
    """Whether something waits there that was piped or redirected to us; a terminal and /dev/null do not count."""
    if sys.platform == "win32":
        return False
    import fcntl
    import termios

    try:
        if os.isatty(_STDIN):
            return False
        waiting = fcntl.ioctl(_STDIN, termios.FIONREAD, bytes(4))
    except OSError:
        return False  # closed, or nothing that is read
    return int.from_bytes(waiting, sys.byteorder) > 0


def _feed(started: StartedCommand) -> None:
    try:
        while data := read_patiently(_STDIN, _READ_BYTES):
            started.write_stdin(data)
    except (OSError, FableExecError):
        pass  # unreadable input ends like input that ended; a command that reads no more needs none
    started.close_stdin()

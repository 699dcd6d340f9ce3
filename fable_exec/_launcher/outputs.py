"""Writing to a descriptor that others share: what they may do to it meanwhile, and what poll(2) says of it."""

from __future__ import annotations

import os
import select

AT_ONCE_BYTES = select.PIPE_BUF if hasattr(select, "PIPE_BUF") else 512
"""So much a pipe takes without making us wait once poll(2) calls it writable (pipe(7)); a socket has more room than that."""
GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL if hasattr(select, "poll") else 0
"""What poll(2) says of an output that nobody reads any more."""


def write_all(target: int, data: bytes) -> None:
    """Write all of `data`, however long it takes, whether the descriptor blocks or not. Raises OSError."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(target, rest) :]
        except BlockingIOError:
            waiting = select.poll()
            waiting.register(target, select.POLLOUT)
            waiting.poll()

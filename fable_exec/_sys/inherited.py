"""Descriptors that this process shares with whoever started it.

O_NONBLOCK belongs to the open file: anybody who has it too may set it, or clear it, at any moment.
"""

from __future__ import annotations

import os
import select

__all__ = ["AT_ONCE_BYTES", "GONE", "read_patiently", "take_standard_numbers"]

AT_ONCE_BYTES = select.PIPE_BUF if hasattr(select, "PIPE_BUF") else 512
"""So much a pipe takes without making us wait once poll(2) calls it writable (pipe(7)); a socket has more room than that."""
GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL if hasattr(select, "poll") else 0
"""What poll(2) says of an output that nobody reads any more."""


def read_patiently(descriptor: int, most_bytes: int) -> bytes:
    """Some of what is there, waited for whether the descriptor blocks or not; b"" at the end. Raises OSError."""
    while True:
        try:
            return os.read(descriptor, most_bytes)
        except BlockingIOError:
            waiting = select.poll()
            waiting.register(descriptor, select.POLLIN)
            waiting.poll()


def take_standard_numbers() -> list[int]:
    """Put /dev/null where 0, 1 or 2 are closed: a file of ours must not be what others read or write. Returns which were."""
    taken: list[int] = []
    try:
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
            taken.append(descriptor)
        os.close(descriptor)
    except BaseException:
        for each in taken:
            os.close(each)
        raise
    return taken

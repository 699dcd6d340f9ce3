"""Descriptors that this process shares with whoever started it.

O_NONBLOCK belongs to the open file: anybody who has it too may set it, or clear it, at any moment.
"""

from __future__ import annotations

import os
import select

__all__ = ["read_patiently"]


def read_patiently(descriptor: int, most_bytes: int) -> bytes:
    """Some of what is there, waited for whether the descriptor blocks or not; b"" at the end. Raises OSError."""
    while True:
        try:
            return os.read(descriptor, most_bytes)
        except BlockingIOError:
            waiting = select.poll()
            waiting.register(descriptor, select.POLLIN)
            waiting.poll()

"""Descriptors that this process shares with whoever started it.

O_NONBLOCK belongs to the open file: anybody who has it too may set it, or clear it, at any moment.
"""

from __future__ import annotations

import os
import select
import sys

from fable_exec._launcher.outputs import AT_ONCE_BYTES, GONE, write_all

__all__ = ["AT_ONCE_BYTES", "GONE", "read_patiently", "take_standard_numbers", "take_standard_streams", "write_all"]


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


def take_standard_streams() -> None:
    """The same, for a program: Python's own streams, which it leaves out where the descriptors were closed, are there too."""
    take_standard_numbers()
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(
                sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", errors="backslashreplace", closefd=False)
            )

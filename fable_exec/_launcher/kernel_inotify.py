"""inotify(7), which Python's standard library lacks: an instance, its watches, its events."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

IN_ATTRIB = 0x4
IN_CLOSE_WRITE = 0x8
IN_MOVED_TO = 0x80
IN_CREATE = 0x100
IN_Q_OVERFLOW = 0x4000
IN_IGNORED = 0x8000
IN_ONLYDIR = 0x01000000
IN_ISDIR = 0x40000000

_HEADER = struct.Struct("iIII")
_READ_BYTES = 1 << 16


class Event(NamedTuple):
    """One event: the watch it came by, IN_* bits, and the name inside the watched directory."""

    watch: int
    mask: int
    name: str


def open_instance() -> int:
    """A non-blocking inotify instance; the descriptor is the caller's. Raises OSError, ENOSYS where there is no inotify."""
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return _checked(_library().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify_init1")


def add_watch(instance: int, directory: int, mask: int) -> int:
    """Watch the directory behind the descriptor `directory`; the same directory gives the same number again."""
    path = f"/proc/self/fd/{directory}".encode()
    return _checked(_library().inotify_add_watch(instance, path, mask | IN_ONLYDIR), "inotify_add_watch")


def read_events(instance: int) -> Iterator[Event]:
    """Every event that waits now, without blocking."""
    while True:
        try:
            data = os.read(instance, _READ_BYTES)
        except BlockingIOError:
            return
        position = 0
        while position < len(data):
            watch, mask, _, length = _HEADER.unpack_from(data, position)
            position += _HEADER.size
            yield Event(watch, mask, os.fsdecode(data[position : position + length].rstrip(b"\0")))
            position += length


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, call: str) -> int:
    if result != -1:
        return result
    number = ctypes.get_errno()
    error = OSError(number, os.strerror(number))
    error.add_note(call)
    raise error

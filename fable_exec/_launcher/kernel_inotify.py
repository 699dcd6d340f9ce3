"""inotify(7), which Python's standard library lacks: an instance, its watches, its events."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterator

from .kernel_errors import checked
from .typed import NamedTuple

IN_ATTRIB = 0x4
IN_CLOSE_WRITE = 0x8
IN_MOVED_FROM = 0x40
IN_MOVED_TO = 0x80
IN_CREATE = 0x100
IN_DELETE = 0x200
IN_Q_OVERFLOW = 0x4000
IN_IGNORED = 0x8000
IN_ONLYDIR = 0x01000000
IN_ISDIR = 0x40000000

_HEADER = struct.Struct("iIII")
_READ_BYTES = 1 << 18
_MAX_READS = 1024
"""One call must end although others write on: what comes later is for the next call."""

if sys.platform == "linux":
    _libc = ctypes.CDLL(None, use_errno=True)
    _init = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, use_errno=True)(("inotify_init1", _libc))
    _add = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32, use_errno=True)(
        ("inotify_add_watch", _libc)
    )


class Event(NamedTuple):
    """One event: the watch it came by, IN_* bits, and the name inside the watched directory."""

    watch: int
    mask: int
    name: str


def open_instance() -> int:
    """A non-blocking inotify instance; the descriptor is the caller's. Raises OSError, ENOSYS where there is no inotify."""
    if sys.platform == "linux":
        return checked(_init(os.O_NONBLOCK | os.O_CLOEXEC), "inotify_init1")
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def add_watch(instance: int, directory: int, mask: int) -> int:
    """Watch the directory behind the descriptor `directory`; the same directory gives the same number again, with this mask."""
    if sys.platform == "linux":
        path = f"/proc/self/fd/{directory}".encode()
        return checked(_add(instance, path, mask | IN_ONLYDIR), "inotify_add_watch")
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def read_events(instance: int) -> Iterator[Event]:
    """Every event that waits now, without blocking."""
    for _ in range(_MAX_READS):
        try:
            data = os.read(instance, _READ_BYTES)
        except BlockingIOError:
            return
        yield from _events(data)


def _events(data: bytes) -> Iterator[Event]:
    position = 0
    while position < len(data):
        watch, mask, _, length = _HEADER.unpack_from(data, position)
        position += _HEADER.size
        yield Event(watch, mask, os.fsdecode(data[position : position + length].rstrip(b"\0")))
        position += length

"""macOS: what proc_pidinfo says of a process. There are no process descriptors here, so what takes one is OSError(ENOSYS).

The structures are those of bsd/sys/proc_info.h and proc_info_private.h (XNU). Every field has a fixed width, so their layout is
tested on every platform. An answer counts only with the size of its structure and, where it holds one, the number asked for.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import NoReturn, TypeVar

BIRTH_CLOCK = "darwin"
"""What `birth_of` counts in."""

PS_KNOWS_MORE = True
"""ps(1) is privileged here: it says of other users' processes what proc_pidinfo keeps to itself."""

_PROC_PIDTBSDINFO = 3  # of our own user's processes only
_PROC_PIDT_SHORTBSDINFO = 13  # of everybody's
_PROC_PIDUNIQIDENTIFIERINFO = 17  # of everybody's; private, and asserted in XNU to have 56 bytes
_SZOMB = 5
_UUID_BYTES = 37

_Info = TypeVar("_Info", bound=ctypes.Structure)


class BsdInfo(ctypes.Structure):
    """struct proc_bsdinfo."""

    _fields_ = (
        ("flags", ctypes.c_uint32),
        ("status", ctypes.c_uint32),
        ("exit_status", ctypes.c_uint32),
        ("pid", ctypes.c_uint32),
        ("parent", ctypes.c_uint32),
        ("ids", ctypes.c_uint32 * 6),
        ("reserved", ctypes.c_uint32),
        ("command", ctypes.c_char * 16),
        ("name", ctypes.c_char * 32),
        ("files", ctypes.c_uint32),
        ("group", ctypes.c_uint32),
        ("job_count", ctypes.c_uint32),
        ("terminal", ctypes.c_uint32),
        ("terminal_group", ctypes.c_uint32),
        ("nice", ctypes.c_int32),
        ("start_seconds", ctypes.c_uint64),
        ("start_microseconds", ctypes.c_uint64),
    )


class ShortBsdInfo(ctypes.Structure):
    """struct proc_bsdshortinfo."""

    _fields_ = (
        ("pid", ctypes.c_uint32),
        ("parent", ctypes.c_uint32),
        ("group", ctypes.c_uint32),
        ("status", ctypes.c_uint32),
        ("command", ctypes.c_char * 16),
        ("flags", ctypes.c_uint32),
        ("ids", ctypes.c_uint32 * 6),
        ("reserved", ctypes.c_uint32),
    )


class UniqueInfo(ctypes.Structure):
    """struct proc_uniqidentifierinfo. `unique_id` is given at fork, kept over execve and used once in a boot."""

    _fields_ = (
        ("executable", ctypes.c_uint8 * 16),
        ("unique_id", ctypes.c_uint64),
        ("parent_unique_id", ctypes.c_uint64),
        ("version", ctypes.c_int32),
        ("parent_version", ctypes.c_int32),
        ("reserved", ctypes.c_uint64 * 2),
    )


def _missing() -> NoReturn:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def open_process(pid: int) -> int:
    """ENOSYS."""
    _missing()


def has_ended(handle: int, timeout_seconds: float = 0.0) -> bool:
    """ENOSYS."""
    _missing()


def signal_process(handle: int, number: int) -> None:
    """ENOSYS."""
    _missing()


def signal_process_group(handle: int, number: int) -> None:
    """ENOSYS."""
    _missing()


def unique_process_id(pid: int, handle: int | None) -> int | None:
    """The number that the kernel gives to this process alone until the next boot; None where it does not tell."""
    try:
        return int(_ask(pid, _PROC_PIDUNIQIDENTIFIERINFO, UniqueInfo()).unique_id) or None
    except ProcessLookupError:
        raise
    except OSError:
        return None


def is_child(pid: int) -> bool:
    """ENOSYS: waitid(2) is not offered here."""
    _missing()


def own_number_in_view() -> int:
    """Our number; there is one view here."""
    return os.getpid()


def number_in_view(pid: int, handle: int | None) -> int:
    """`pid`; there is one view here."""
    return pid


def birth_of(number: int) -> tuple[int, ...]:
    """When the process was born: (seconds, microseconds), kept as they were at its fork. PermissionError of others' processes."""
    info = _ask(number, _PROC_PIDTBSDINFO, BsdInfo())
    require_living(info, number)
    return int(info.start_seconds), int(info.start_microseconds)


def family_of(number: int) -> tuple[int, int]:
    """The parent and the process group."""
    info = _ask(number, _PROC_PIDT_SHORTBSDINFO, ShortBsdInfo())
    require_living(info, number)
    return int(info.parent), int(info.group)


def numbers() -> list[int]:
    """ENOSYS: nobody asks for all of them here."""
    _missing()


def was_started_with(number: int, variable: bytes) -> bool:
    """ENOSYS."""
    _missing()


def boot_id() -> str:
    """The kernel's name for this boot."""
    text, size = ctypes.create_string_buffer(_UUID_BYTES), ctypes.c_size_t(_UUID_BYTES)
    call = ctypes.CDLL(None, use_errno=True).sysctlbyname
    call.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t), ctypes.c_void_p, ctypes.c_size_t)
    call.restype = ctypes.c_int
    if call(b"kern.bootsessionuuid", text, ctypes.byref(size), None, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "kern.bootsessionuuid")
    return text.value.decode("ascii", "replace").lower()


def pid_namespace() -> int:
    """0: there is one for all."""
    return 0


def time_namespace() -> int:
    """ENOSYS: there are none."""
    _missing()


def _ask(pid: int, flavor: int, info: _Info) -> _Info:
    """`info`, filled by proc_pidinfo. ProcessLookupError for a process that is gone or a zombie."""
    call = ctypes.CDLL("/usr/lib/libproc.dylib", use_errno=True).proc_pidinfo
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_int)
    call.restype = ctypes.c_int
    written = call(pid, flavor, 0, ctypes.byref(info), ctypes.sizeof(info))
    require_whole(info, written, ctypes.get_errno())
    return info


def require_whole(info: ctypes.Structure, written: int, number: int) -> None:
    """OSError unless proc_pidinfo wrote the whole structure: its errno when it wrote nothing, ENOSYS for a strange size."""
    if written == ctypes.sizeof(info):
        return
    number = (number or errno.ESRCH) if written <= 0 else errno.ENOSYS
    error = OSError(number, os.strerror(number))
    error.add_note(f"proc_pidinfo wrote {written} bytes of {ctypes.sizeof(info)}")
    raise error


def require_living(info: BsdInfo | ShortBsdInfo, pid: int) -> None:
    """ProcessLookupError unless the answer is about `pid` and not about a zombie."""
    if info.pid != pid or info.status == _SZOMB:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))


def number_behind(handle: int) -> int:
    """There are no descriptors of processes here: OSError(ENOSYS)."""
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

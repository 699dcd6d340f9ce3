"""Windows: no processes by descriptor, and nothing that names one beyond its number, so every question is OSError(ENOSYS)."""

from __future__ import annotations

import errno
import os
from typing import NoReturn

BIRTH_CLOCK = ""
PS_KNOWS_MORE = False


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
    """None."""
    return None


def is_child(pid: int) -> bool:
    """ENOSYS."""
    _missing()


def own_number_in_view() -> int:
    """ENOSYS."""
    _missing()


def number_in_view(pid: int, handle: int | None) -> int:
    """ENOSYS."""
    _missing()


def birth_of(number: int) -> tuple[int, ...]:
    """ENOSYS."""
    _missing()


def family_of(number: int) -> tuple[int, int]:
    """ENOSYS."""
    _missing()


def numbers() -> list[int]:
    """ENOSYS."""
    _missing()


def was_started_with(number: int, variable: bytes) -> bool:
    """ENOSYS."""
    _missing()


def boot_id() -> str:
    """ENOSYS."""
    _missing()


def pid_namespace() -> int:
    """ENOSYS."""
    _missing()


def time_namespace() -> int:
    """ENOSYS."""
    _missing()


def number_behind(handle: int) -> int:
    """OSError(ENOSYS)."""
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

"""Looks at a living process and writes down who it is; holds nothing afterwards.

Where the kernel has process descriptors one is opened first and asked last, so that all that is read between is of one process.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from typing import TypeVar

from fable_exec._sys import processes
from fable_exec.errors import IdentityLost
from fable_exec.procident import ps
from fable_exec.procident.identity import ProcessIdentity
from fable_exec.procident.tokens import BirthToken, TokenKind, is_boot_id

__all__ = ["identify", "identify_by", "lost", "open_descriptor", "told"]

_NO_DESCRIPTORS = {errno.ENOSYS, errno.EPERM, errno.EACCES}  # no such call, or a filter that does not let us
_NOT_TOLD = {errno.ENOENT, errno.ENOTDIR, errno.EPERM, errno.EACCES, errno.ENOSYS}  # no /proc, a hidden one, a filter

_Fact = TypeVar("_Fact")


def identify(pid: int) -> ProcessIdentity:
    """Who has the number `pid` now, in our PID namespace.

    Returns:
        What could be told: a hidden /proc or a kernel without process descriptors leaves members empty.
    Raises:
        IdentityLost: There is no such process, it is a zombie, or the number is a thread's; `gone` is true.
        ValueError: `pid` is below 1.
        OSError: It could not be looked at for want of descriptors or memory.
    """
    with _descriptor(pid) as descriptor:
        return identify_by(pid, descriptor)


def identify_by(pid: int, descriptor: int | None) -> ProcessIdentity:
    """The same of the process behind `descriptor`, which was opened for `pid`; None where there are no such descriptors."""
    boot_id = _boot_id()
    birth = _birth(pid, descriptor, boot_id)
    unique_id = _unique_id(pid, descriptor)
    # What has not ended by its descriptor had its number all the time; without one the number may have passed on meanwhile.
    has_gone = _birth(pid, None, boot_id) != birth if descriptor is None else processes.has_ended(descriptor)
    if has_gone:
        raise lost(pid)
    return ProcessIdentity(pid, birth, unique_id, told(processes.pid_namespace), boot_id, told(processes.time_namespace))


def open_descriptor(pid: int) -> tuple[int | None, str]:
    """A descriptor of the process, the caller's to close; None with the system's reason where it gives none to us.

    IdentityLost when there is no such process, ValueError for a number that no process has.
    """
    if pid < 1:
        raise ValueError(f"not the number of a process: {pid}")
    try:
        return processes.open_process(pid), ""
    except ProcessLookupError:
        raise lost(pid) from None
    except OSError as error:
        if error.errno not in _NO_DESCRIPTORS:
            raise
        return None, os.strerror(error.errno)


def lost(pid: int) -> IdentityLost:
    """The error for a process that is no more."""
    return IdentityLost(f"there is no process {pid} any more", gone=True)


def told(question: Callable[[], _Fact]) -> _Fact | None:
    """The answer to a question; None where the kernel does not tell here. Want of descriptors or memory is an OSError."""
    try:
        return question()
    except ProcessLookupError:
        raise
    except OSError as error:
        if error.errno not in _NOT_TOLD:
            raise
        return None


@contextlib.contextmanager
def _descriptor(pid: int) -> Iterator[int | None]:
    descriptor, _ = open_descriptor(pid)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _birth(pid: int, descriptor: int | None, boot_id: str) -> BirthToken | None:
    try:
        moment = told(lambda: processes.birth_of(processes.number_in_view(pid, descriptor)))
        if moment is not None:
            return _token(moment, boot_id)
        if descriptor is None:
            _require_existence(pid)
    except ProcessLookupError:
        raise lost(pid) from None
    return ps.birth_by_ps(pid) if processes.PS_KNOWS_MORE else None


def _token(moment: tuple[int, ...], boot_id: str) -> BirthToken:
    kind = TokenKind(processes.BIRTH_CLOCK)
    return BirthToken(kind, ":".join(map(str, moment)), boot_id if kind is TokenKind.PROC else "")


def _boot_id() -> str:
    name = told(processes.boot_id) or ""
    return name if is_boot_id(name) else ""


def _unique_id(pid: int, descriptor: int | None) -> int | None:
    try:
        return processes.unique_process_id(pid, descriptor)
    except ProcessLookupError:
        raise lost(pid) from None


def _require_existence(pid: int) -> None:
    """ProcessLookupError when nobody has the number. A zombie is somebody here: nothing tells it where /proc does not."""
    with contextlib.suppress(PermissionError):
        os.kill(pid, 0)  # 0 sends nothing and only asks

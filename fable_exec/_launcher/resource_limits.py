"""Limits of each process: setrlimit(2), always soft and hard, never above what was inherited.

A launcher lives under those that do not hinder it. The others a command gets between fork and exec: set from outside after the
start they would come too late for a program that is quick to fork, and set on the launcher they would cut its own work short.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
from collections.abc import Callable, Sequence

from .descriptor_limit import inherited_descriptor_limit, keep_descriptor_limit
from .typed import NoReturn

IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""What a Python process ignores from its start on; a command must not inherit that."""

_NUMBERS = {
    "cpu": resource.RLIMIT_CPU,
    "data": resource.RLIMIT_DATA,
    "file_size": resource.RLIMIT_FSIZE,
    "open_files": resource.RLIMIT_NOFILE,
}
_CANNOT_EXECUTE = 127
_ERRNO_BYTES = 4
_ABOVE_COPIES = 10
"""The first number that no copy is made to."""

Limit = Sequence[str | int]
"""Name, soft limit, hard limit."""


def set_limits(limits: Sequence[Sequence[str | int]]) -> None:
    """Put this process, and all that it starts, under `limits`; an unknown name is a KeyError."""
    for name, soft, hard in limits:
        number = _NUMBERS[str(name)]
        _, highest = resource.getrlimit(number)
        hard = int(hard) if highest == resource.RLIM_INFINITY else min(int(hard), highest)
        resource.setrlimit(number, (min(int(soft), hard), hard))
        if number == resource.RLIMIT_NOFILE:
            keep_descriptor_limit()


def fork_limited(limits: Sequence[Limit], copies: Sequence[tuple[int, int]], execute: Callable[[], NoReturn]) -> int:
    """Fork a process that gets a session, `copies` of descriptors (from, to), `limits`, and then `execute`s.

    Returns its process id once the new program runs. Raises OSError with the errno of whatever failed instead.
    """
    reading, writing = os.pipe()
    try:
        with inherited_descriptor_limit(max(source for source, _ in copies)):
            pid = os.fork()
            if pid == 0:
                _become(limits, copies, execute, writing)
    finally:
        os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        failure = answer.read(_ERRNO_BYTES)  # nothing: execve(2) closed the other end
    if failure:
        os.waitpid(pid, 0)
        number = int.from_bytes(failure, "little")
        raise OSError(number, os.strerror(number))
    return pid


def _become(limits: Sequence[Limit], copies: Sequence[tuple[int, int]], execute: Callable[[], NoReturn], answer: int) -> NoReturn:
    number = errno.EINVAL
    try:
        answer = above_copies(answer)
        os.setsid()
        leave_python(copies)
        set_limits(limits)
        execute()
    except OSError as error:
        number = error.errno or errno.EINVAL
    finally:
        os.write(answer, number.to_bytes(_ERRNO_BYTES, "little"))
        os._exit(_CANNOT_EXECUTE)


def above_copies(descriptor: int) -> int:
    """A second number of it that `leave_python` overwrites with none of its copies; closed when a program is executed."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _ABOVE_COPIES)


def leave_python(copies: Sequence[tuple[int, int]]) -> None:
    """Before execve(2): signals that Python ignores work as usual again, and `copies` of descriptors (from, to) are made."""
    for number in IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    for source, target in copies:
        os.dup2(source, target)
        os.set_inheritable(target, True)  # dup2(2) onto itself changes nothing

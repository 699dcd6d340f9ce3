"""Descriptors that somebody gave this process by their number: whether they can be what they were given for.

It opens nothing, takes no byte and keeps nothing.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import stat
import sys

__all__ = ["fault_of_input", "fault_of_number", "fault_of_process"]

_MOST = 2**31 - 1
_STREAMS = (socket.SOCK_STREAM, getattr(socket, "SOCK_SEQPACKET", socket.SOCK_STREAM))


def fault_of_number(descriptor: int) -> str | None:
    """Why it cannot have been given, in words that go on after its number; None when it can."""
    if not 0 <= descriptor <= _MOST:
        return "is no number that one has"
    if descriptor <= 2:
        return "is one of the standard descriptors; give another"
    try:
        os.fstat(descriptor)
    except OSError:
        return "is not open"
    return None


def fault_of_input(descriptor: int) -> str | None:
    """The same, or why nobody's bytes can be read from it up to their end."""
    if fault := fault_of_number(descriptor):
        return fault
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        return "is a directory"
    if stat.S_ISSOCK(mode):
        return _fault_of_socket(descriptor)
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or os.isatty(descriptor)):
        return "is neither a file nor a pipe, a socket or a terminal"
    try:
        os.read(descriptor, 0)
    except OSError as error:
        if error.errno == errno.EBADF:
            return "is not open for reading"
    return None


def _fault_of_socket(descriptor: int) -> str | None:
    with socket.socket(fileno=os.dup(descriptor)) as copy:
        if copy.type not in _STREAMS:
            return "is a socket of datagrams, which have no end"
        try:
            copy.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError as error:
            if error.errno in (errno.ENOTCONN, errno.EINVAL):
                return "is a socket that is not connected"
    return None


def fault_of_process(descriptor: int) -> str | None:
    """The same, or why it is not one of a process (pidfd_open(2)), whose end could be waited for."""
    if fault := fault_of_number(descriptor):
        return fault
    if sys.platform != "linux" or stat.S_ISDIR(os.fstat(descriptor).st_mode):
        return "is not that of a process"  # /proc/PID is taken for one by the call below, and always called readable by poll(2)
    try:
        signal.pidfd_send_signal(descriptor, 0)
    except OSError as error:
        if error.errno == errno.EBADF:
            return "is not that of a process"
    return None

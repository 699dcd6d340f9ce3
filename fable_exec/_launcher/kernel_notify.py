"""seccomp(2) user notifications: load a filter with a listener, take a notified call, answer it, and look into who made it.

Errors are OSError with the kernel's errno and a note that names the call. No policy lives here.
Sources: seccomp_unotify(2), `include/uapi/linux/seccomp.h`, ptrace(2) on who may look.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct

from . import kernel_confine, kernel_fs
from .typed import NamedTuple

# Flags of seccomp(SECCOMP_SET_MODE_FILTER): hand out a listener (5.0); once taken, a call waits through signals (5.19).
_NEW_LISTENER = 1 << 3
_WAIT_KILLABLE = 1 << 5

_RECEIVE, _SEND, _ID_VALID, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40082104
_WAKE_ON_THIS_PROCESSOR = 1  # SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (6.6)
_CONTINUE = 1
# struct seccomp_notif: id, pid, flags, and struct seccomp_data: number, architecture, instruction pointer, six arguments.
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_ID = struct.Struct("=Q")


class Call(NamedTuple):
    """One system call that waits for an answer. `pid` is the calling thread's, 0 for one outside our PID namespace."""

    ticket: int
    pid: int
    number: int
    arguments: tuple[int, ...]


def set_observed_filter(program: bytes) -> int:
    """`kernel_confine.set_filter`, and a listener for the calls that the program answers with USER_NOTIF.

    Who holds the descriptor (close-on-exec) answers. EBUSY: this process lives under a filter with a listener already.
    """
    try:
        return kernel_confine.set_filter(program, _NEW_LISTENER | _WAIT_KILLABLE)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    return kernel_confine.set_filter(program, _NEW_LISTENER)


def prepare_listener(listener: int) -> None:
    """Have a caller woken where it is answered: a system call is one hand-over, not work for two processors."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(listener, _SET_FLAGS, _WAKE_ON_THIS_PROCESSOR)


def next_call(listener: int) -> Call | None:
    """Take the call that made `listener` readable; None when its caller is gone. Waits when nothing was readable."""
    buffer = bytearray(_NOTIFICATION.size)  # the kernel insists on zeros
    try:
        fcntl.ioctl(listener, _RECEIVE, buffer, True)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR):
            return None
        raise
    ticket, pid, _, number, _, _, *arguments = _NOTIFICATION.unpack(buffer)
    return Call(ticket, pid, number, tuple(arguments))


def still_waits(listener: int, call: Call) -> bool:
    """Whether the caller is still the one that was looked into: its number may have been given to another since."""
    try:
        fcntl.ioctl(listener, _ID_VALID, _ID.pack(call.ticket))
    except OSError:
        return False
    return True


def let_go_on(listener: int, call: Call) -> None:
    """Have the kernel perform the call as if nobody had asked."""
    _answer(listener, call, 0, _CONTINUE)


def refuse(listener: int, call: Call, number: int) -> None:
    """Have the call fail with errno `number`, undone."""
    _answer(listener, call, -number, 0)


def _answer(listener: int, call: Call, error: int, flags: int) -> None:
    try:
        fcntl.ioctl(listener, _SEND, _ANSWER.pack(call.ticket, 0, error, flags))
    except OSError as failure:
        if failure.errno not in (errno.ENOENT, errno.EINPROGRESS):
            raise  # the caller was killed meanwhile: nobody waits


def memory_of(pid: int, address: int, size: int) -> bytes:
    """Up to `size` bytes of another process's memory at `address`; fewer where it ends. Raises OSError."""
    descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, size, address)
    finally:
        os.close(descriptor)


def process_of(thread: int) -> int:
    """The process that a thread belongs to."""
    with open(f"/proc/{thread}/status", "rb") as lines:
        return int(next(line for line in lines if line.startswith(b"Tgid:")).split()[1])


def listener_errno() -> int:
    """Why there are no notifications: the kernel's errno, 0 where there are. For a child that ends with it: it stays filtered."""
    allow_all = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)
    try:
        os.close(set_observed_filter(allow_all))
        kernel_fs.openat2(-1, "x", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        # A kernel with this call (5.6), by which launchers pass their observer, lets a call go on (5.5), which no flag tells.
        return 0 if error.errno == errno.EBADF else error.errno or errno.ENOSYS
    return errno.ENOSYS

"""What Python's `os` and `socket` have on Linux alone, importable everywhere: elsewhere a call answers ENOSYS.

So the host's modules can be imported, and type-checked, on every platform.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys

if sys.platform == "linux":
    O_PATH = os.O_PATH
    MSG_CMSG_CLOEXEC = int(socket.MSG_CMSG_CLOEXEC)
    SOCK_CLOEXEC, SOCK_NONBLOCK = socket.SOCK_CLOEXEC, socket.SOCK_NONBLOCK
    getxattr = os.getxattr
    pidfd_open = os.pidfd_open
    pidfd_send_signal = signal.pidfd_send_signal

    def memory_file(name: str) -> int:
        """An anonymous file in memory (memfd_create(2), close-on-exec)."""
        return os.memfd_create(name, os.MFD_CLOEXEC)

    def set_ids(user: int, group: int) -> None:
        """Become `user` and `group` in every sense, without supplementary groups."""
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)

    def pipe_unblocking() -> tuple[int, int]:
        """A close-on-exec pipe whose ends never block."""
        return os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def signal_new_names(directory: int) -> None:
        """Have SIGIO sent to us for each name that comes into an open directory, as long as it is open (F_NOTIFY in fcntl(2))."""
        fcntl.fcntl(directory, fcntl.F_NOTIFY, fcntl.DN_CREATE | fcntl.DN_MULTISHOT)

    def has_children() -> bool:
        """Whether this process has a child, dead or alive (waitid(2), nothing is reaped)."""
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return True

    def is_stopped(pid: int) -> bool:
        """Whether our child `pid` was stopped by a signal since the last call (waitid(2); its exit is not taken)."""
        try:
            return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG) is not None
        except ChildProcessError:
            return False

else:
    import errno

    O_PATH = 0
    MSG_CMSG_CLOEXEC = 0
    SOCK_CLOEXEC = SOCK_NONBLOCK = 0

    def _missing() -> OSError:
        return OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    def getxattr(path: str, attribute: str) -> bytes:
        raise _missing()

    def pidfd_open(pid: int, flags: int = 0) -> int:
        raise _missing()

    def pidfd_send_signal(descriptor: int, number: int, info: None = None, flags: int = 0, /) -> None:
        raise _missing()

    def memory_file(name: str) -> int:
        raise _missing()

    def set_ids(user: int, group: int) -> None:
        raise _missing()

    def signal_new_names(directory: int) -> None:
        raise _missing()

    def has_children() -> bool:
        raise _missing()

    def is_stopped(pid: int) -> bool:
        raise _missing()

    def pipe_unblocking() -> tuple[int, int]:
        raise _missing()

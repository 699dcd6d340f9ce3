"""Linux: a process by descriptor, what /proc says of it, and the namespaces that such numbers belong to.

It reads and never decides who is who. "The view" is the /proc that is mounted here: its numbers are those of the PID namespace it
was mounted for, which need not be ours. Also the module for other POSIX systems, where each call is an OSError.
Sources: pidfd_open(2), pidfd_send_signal(2), proc_pid_stat(5), proc_pid_status(5), proc(5) on fdinfo, statfs(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import sys

from fable_exec._launcher import linuxos, proctree
from fable_exec._launcher.kernel_errors import checked

BIRTH_CLOCK = "proc"
"""What `birth_of` counts in."""

PS_KNOWS_MORE = sys.platform != "linux"
"""Whether ps(1) has another source than these functions have; on Linux it reads the same /proc."""

_MOST_ENVIRONMENT_BYTES = 1 << 23  # execve(2) takes 6 MiB at most, arguments included
_PIDFS_MAGIC = 0x50494446  # include/uapi/linux/magic.h
_SIGNAL_PROCESS_GROUP = 1 << 2  # PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9
_LONGEST_SECONDS = 2_000_000.0  # poll(2) takes milliseconds in an int
_Statfs = ctypes.c_long * 32  # more than any struct statfs has
if sys.platform == "linux":
    _libc = ctypes.CDLL(None, use_errno=True)
    _fstatfs = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(_Statfs), use_errno=True)(("fstatfs", _libc))
_STATE, _PARENT, _GROUP, _THREADS, _START = 0, 1, 2, 17, 19  # fields 3, 4, 5, 20 and 22 of proc_pid_stat(5)


def open_process(pid: int) -> int:
    """A close-on-exec descriptor of the process `pid` > 0. ProcessLookupError when there is none, or the number is a thread's."""
    try:
        return linuxos.pidfd_open(pid)
    except OSError as error:
        # A thread's number: EINVAL before Linux 6.9, and of a process that is being reaped; ENOENT since.
        if error.errno in (errno.EINVAL, errno.ENOENT):
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH)) from error
        raise


def has_ended(handle: int, timeout_seconds: float = 0.0) -> bool:
    """Whether every thread of the process has ended within the time (23 days are the most); a zombie has."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    events = poll.poll(min(max(timeout_seconds, 0.0), _LONGEST_SECONDS) * 1000)
    if events and events[0][1] & select.POLLNVAL:  # somebody closed it: that says nothing of the process
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return bool(events)


def signal_process(handle: int, number: int) -> None:
    """Send a signal to the process; a zombie takes it without effect, ProcessLookupError when it has been reaped."""
    linuxos.pidfd_send_signal(handle, number)


def signal_process_group(handle: int, number: int) -> None:
    """Send a signal to the group that the process leads, also when it has ended itself. OSError(EINVAL) before Linux 6.9."""
    linuxos.pidfd_send_signal(handle, number, None, _SIGNAL_PROCESS_GROUP)


def unique_process_id(pid: int, handle: int | None) -> int | None:
    """The number that the kernel gives to this process alone until the next boot: its descriptor's inode in pidfs (Linux 6.9).

    None without a descriptor, before 6.9, where all descriptors share one inode, and on 32-bit machines, which cut it.
    """
    if handle is None or ctypes.sizeof(ctypes.c_long) < 8 or _file_system(handle) != _PIDFS_MAGIC:
        return None
    return os.fstat(handle).st_ino


def _file_system(descriptor: int) -> int:
    answer = _Statfs()
    if sys.platform == "linux":
        checked(_fstatfs(descriptor, ctypes.byref(answer)), f"fstatfs({descriptor})")
    return answer[0]


def is_child(pid: int) -> bool:
    """Whether `pid` is a child of ours that has not been waited for (waitid(2); its exit status stays)."""
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def own_number_in_view() -> int:
    """Our number in the view. FileNotFoundError where there is no /proc, or one that does not show us."""
    return int(os.readlink("/proc/self"))


def number_in_view(pid: int, handle: int | None) -> int:
    """The number of the process in the view, which the kernel translates for a descriptor.

    Without a descriptor it is `pid`, if the view is that of our own PID namespace. FileNotFoundError when the view does not show
    the process or its numbers are others', ProcessLookupError when it has been reaped or is only a thread.
    """
    if handle is not None:
        number = int(_line(f"/proc/self/fdinfo/{handle}", b"Pid:")[0])
    elif len(_line("/proc/self/status", b"NSpid:")) == 1:
        number = pid if int(_line(f"/proc/{pid}/status", b"Tgid:")[0]) == pid else -1
    else:
        number = 0
    if number < 0:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    if number == 0:
        raise FileNotFoundError(errno.ENOENT, "this /proc does not show the process")
    return number


def number_behind(handle: int) -> int:
    """The number of the process behind a descriptor in our own PID namespace, whichever one the view is of.

    Both lists begin with the namespace of the view and go inwards (proc_pid_status(5), NSpid; proc(5), fdinfo). FileNotFoundError
    when there is no /proc, or the process is not of our namespace; ProcessLookupError when it has been reaped.
    """
    depth = len(_line("/proc/self/status", b"NSpid:"))
    numbers = _line(f"/proc/self/fdinfo/{handle}", b"NSpid:")
    if numbers == [b"-1"]:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    if len(numbers) < depth:
        raise FileNotFoundError(errno.ENOENT, "the process is not of our PID namespace")
    return int(numbers[depth - 1])


def _line(path: str, name: bytes) -> list[bytes]:
    """What stands behind `name` in a file of names and values; a file without it is FileNotFoundError."""
    with open(path, "rb") as file:
        for line in file:
            if line.startswith(name):
                return line.split()[1:]
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{name.decode()} in {path}")


def birth_of(number: int) -> tuple[int, ...]:
    """When the process of that number in the view was born: (clock ticks since the boot, as our time namespace counts them,).

    ProcessLookupError when all of it has ended; a zombie whose other threads live on is alive.
    """
    fields = _stat(number)
    if fields[_STATE] in b"ZXx" and int(fields[_THREADS]) <= 1:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    return (int(fields[_START]),)


def family_of(number: int) -> tuple[int, int]:
    """The parent (0 when it is outside) and the process group of that number, both in the view's numbers."""
    fields = _stat(number)
    return int(fields[_PARENT]), int(fields[_GROUP])


def numbers() -> list[int]:
    """Every number in the view now. One that a process had a moment ago may be another's when it is used."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def was_started_with(number: int, variable: bytes) -> bool:
    """Whether the process of that number was executed with that `NAME=value` (proc_pid_environ(5)).

    False says little: the file is empty during execve(2), and its owner may overwrite it. PermissionError of others' processes.
    """
    with open(f"/proc/{number}/environ", "rb") as file:
        return variable in file.read(_MOST_ENVIRONMENT_BYTES).split(b"\0")


def _stat(number: int) -> list[bytes]:
    with open(f"/proc/{number}/stat", "rb") as file:
        return proctree.split_stat(file.read())[1]


def boot_id() -> str:
    """The kernel's name for this boot, as it stands there; OSError where /proc does not show it (subset=pid, some containers)."""
    with open("/proc/sys/kernel/random/boot_id", "rb") as file:
        return file.read(64).decode("ascii", "replace").strip()


def pid_namespace() -> int:
    """The inode of our PID namespace; it may be given to another once this one is gone."""
    return os.stat("/proc/self/ns/pid").st_ino


def time_namespace() -> int:
    """The inode of our time namespace, which shifts what `birth_of` says; OSError before Linux 5.6."""
    return os.stat("/proc/self/ns/time").st_ino

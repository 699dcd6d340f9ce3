"""System calls that Python's standard library does not offer in every supported version, one wrapper each.

Errors are OSError with the kernel's errno and a note that names the call. No policy lives here.
Sources: the manual pages unshare(2), setns(2), clone(2), mount(2), prctl(2), capabilities(7), user_namespaces(7).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import struct

from .kernel_errors import checked

CLONE_PARENT = 0x00008000
CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
_CLONE_INTO_CGROUP = 0x200000000

MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REC = 0x4000
MS_SLAVE = 1 << 19

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_SECUREBITS = 28
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

# SECBIT_NOROOT with its lock: user id 0 gets no capabilities at execve.
SECUREBITS_NOROOT_LOCKED = 0b11

_SYS_CLONE = {"x86_64": 56, "aarch64": 220}
_SYS_CLONE3 = 435
_CLONE_ARGUMENTS = struct.Struct("@11Q")
_SYS_CLOSE_RANGE = 436
_ABOVE_ALL_DESCRIPTORS = 1 << 31
_CAP_SETPCAP, _CAP_SYS_CHROOT, _CAP_SYS_ADMIN = 8, 18, 21
_CAPABILITY_HEADER = struct.pack("=Ii", 0x20080522, 0)  # version 3, this process
_CAPABILITIES = struct.Struct("=6I")  # effective, permitted, inheritable; then the same of the bits above
_MOST_CAPABILITIES = 64  # bits in the sets

_libc = ctypes.CDLL(None, use_errno=True)
# PyDLL keeps the interpreter lock held, so that a clone()d child wakes up owning it.
_libc_holding_lock = ctypes.PyDLL(None, use_errno=True)

_libc.unshare.argtypes = (ctypes.c_int,)
_libc.setns.argtypes = (ctypes.c_int, ctypes.c_int)
_libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_libc.capset.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
_libc_holding_lock.syscall.argtypes = (ctypes.c_long,) * 6
_libc_holding_lock.syscall.restype = ctypes.c_long


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags`."""
    checked(_libc.unshare(flags), f"unshare({flags:#x})")


def setns(descriptor: int, kind: int) -> None:
    """Enter the namespace behind `descriptor`; `kind` is its CLONE_NEW flag."""
    checked(_libc.setns(descriptor, kind), f"setns({descriptor}, {kind:#x})")


def prctl(option: int, argument: int = 0) -> None:
    """prctl(2) with one argument."""
    checked(_libc.prctl(option, argument, 0, 0, 0), f"prctl({option}, {argument})")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """mount(2)."""
    arguments = (source.encode(), os.fsencode(target), kind.encode(), flags, data.encode())
    checked(_libc.mount(*arguments), f"mount({source!r}, {target!r}, {kind!r}, {flags:#x})")


def clone(flags: int) -> int:
    """Fork into the new namespaces named by `flags`. Returns 0 in the child, the child's process id in the parent.

    With CLONE_PARENT the child is the caller's sibling.

    Only for a single-threaded process: Python's after-fork hooks do not run.
    """
    number = _SYS_CLONE.get(os.uname().machine)
    if number is None:
        raise OSError(38, f"clone() is not known for {os.uname().machine}")
    return int(checked(_libc_holding_lock.syscall(number, flags | signal.SIGCHLD, 0, 0, 0, 0), f"clone({flags:#x})"))


def clone_into(flags: int, control_group: int) -> int:
    """As `clone`, into the control group behind that descriptor of its directory (Linux 5.7).

    To write a process into another group has the kernel wait for every processor, and all forks with it; this has not.
    """
    arguments = ctypes.create_string_buffer(
        _CLONE_ARGUMENTS.pack(flags | _CLONE_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, control_group)
    )
    found = _libc_holding_lock.syscall(_SYS_CLONE3, ctypes.addressof(arguments), _CLONE_ARGUMENTS.size, 0, 0, 0)
    return int(checked(found, f"clone3({flags:#x})"))


def close_all_but(*kept: int) -> None:
    """Close every descriptor above 2 that is not in `kept`: a forked process must not hold what its parent holds."""
    first = 3
    for number in (*sorted({number for number in kept if number >= first}), _ABOVE_ALL_DESCRIPTORS):
        if first < number and _libc_holding_lock.syscall(_SYS_CLOSE_RANGE, first, number - 1, 0, 0, 0) < 0:
            _close_listed(kept)  # Linux before 5.9, or a filter that does not know the call
            return
        first = number + 1


def _close_listed(kept: tuple[int, ...]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


def drop_bounding_set() -> None:
    """Take every capability out of the bounding set, so that no execve below can gain one."""
    for capability in range(_MOST_CAPABILITIES):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno != errno.EINVAL or capability == 0:
                raise
            return  # the kernel has no more; a /proc of processes only does not tell how many (capabilities(7))


def has_capabilities() -> bool:
    """Whether this process may give capabilities up (CAP_SETPCAP), as whoever has any of root's can."""
    # In bytes, here and elsewhere below: to look for a codec is to look for the standard library, which may be out of reach.
    with open("/proc/self/status", "rb") as file:
        effective = next((line.split()[1] for line in file if line.startswith(b"CapEff:")), b"0")
    return bool(int(effective, 16) & 1 << _CAP_SETPCAP)


def drop_capabilities() -> None:
    """Empty the effective, permitted and inheritable sets of this process."""
    _set_capabilities(0)


def keep_launcher_capabilities() -> None:
    """Keep only what entering a slot takes (setns(2)); no execve passes it on."""
    _set_capabilities(1 << _CAP_SYS_ADMIN | 1 << _CAP_SYS_CHROOT)


def _set_capabilities(mask: int) -> None:
    checked(_libc.capset(_CAPABILITY_HEADER, _CAPABILITIES.pack(mask, mask, 0, 0, 0, 0)), f"capset({mask:#x})")

"""The confining system calls: landlock_create_ruleset(2) and its two companions, seccomp(2), and entering namespaces with a key.

Errors are OSError with the kernel's errno and a note that names the call. No policy lives here.
Sources: landlock(7), seccomp(2), the kernel's system-call tables (Landlock's numbers are the same on every machine).
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os

from .kernel_errors import checked
from .kernel_fs import AT_FDCWD, openat2

_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_ADD_RULE = 445
_LANDLOCK_RESTRICT_SELF = 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_RULE_NET_PORT = 2

_NUMBERS = {"x86_64": {"seccomp": 317, "setns": 308, "unshare": 272}, "aarch64": {"seccomp": 277, "setns": 268, "unshare": 97}}
_SET_MODE_FILTER = 1
_GET_ACTION_AVAILABLE = 2
_RETURN_ERRNO = 0x00050000
_PR_GET_NO_NEW_PRIVS = 39
_INSTRUCTION_BYTES = 8
_ENOSYS = 38

_libc = ctypes.CDLL(None, use_errno=True)
_system_call = _libc.syscall
_system_call.restype = ctypes.c_long
_libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)
_with_key = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long, *[ctypes.c_ulong] * 6, use_errno=True)(("syscall", _libc))
"""For the calls that every command makes: its conversions are prepared once."""


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (("handled_fs", ctypes.c_uint64), ("handled_net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _PortRule(ctypes.Structure):
    _fields_ = (("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64))


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _call(name: str, number: int, *arguments: int | ctypes.Structure) -> int:
    """One system call; structures go by reference, numbers as 64 bits."""
    words = [ctypes.byref(each) if isinstance(each, ctypes.Structure) else ctypes.c_ulong(each) for each in arguments]
    return checked(int(_system_call(ctypes.c_long(number), *words)), name)


def landlock_abi() -> int:
    """The kernel's Landlock ABI, 0 where there is none or it is switched off."""
    try:
        return _call("landlock_create_ruleset(version)", _LANDLOCK_CREATE_RULESET, 0, 0, _CREATE_RULESET_VERSION)
    except OSError:
        return 0


def landlock_errno() -> int:
    """Why there is no Landlock: the kernel's errno, 0 where there is."""
    try:
        _call("landlock_create_ruleset(version)", _LANDLOCK_CREATE_RULESET, 0, 0, _CREATE_RULESET_VERSION)
    except OSError as error:
        return error.errno or errno.ENOSYS
    return 0


def filter_errno() -> int:
    """Why there are no seccomp filters: the kernel's errno, 0 where there are. Nothing is filtered by asking."""
    try:
        action = (ctypes.c_uint32 * 1)(_RETURN_ERRNO)
        _call(
            "seccomp(is errno known)",
            _number("seccomp"),
            _GET_ACTION_AVAILABLE,
            0,
            ctypes.cast(action, ctypes.c_void_p).value or 0,
        )
    except OSError as error:
        return error.errno or errno.ENOSYS
    return 0


def create_ruleset(handled_fs: int, handled_net: int, scoped: int) -> int:
    """A new ruleset's descriptor. An older kernel takes the longer structure as long as what it does not know is 0."""
    attributes = _RulesetAttributes(handled_fs, handled_net, scoped)
    return _call(
        f"landlock_create_ruleset({handled_fs:#x}, {handled_net:#x}, {scoped:#x})",
        _LANDLOCK_CREATE_RULESET,
        attributes,
        ctypes.sizeof(attributes),
        0,
    )


def allow_path(ruleset: int, descriptor: int, rights: int) -> None:
    """Grant `rights` for the file behind `descriptor`, and for all below it."""
    rule = _PathRule(rights, descriptor)
    _call(f"landlock_add_rule(path, {rights:#x})", _LANDLOCK_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0)


def allow_port(ruleset: int, port: int, rights: int) -> None:
    """Grant `rights` for a port."""
    rule = _PortRule(rights, port)
    _call(f"landlock_add_rule(port {port}, {rights:#x})", _LANDLOCK_ADD_RULE, ruleset, _RULE_NET_PORT, rule, 0)


def allow_ports(ruleset: int, first: int, last: int, rights: int) -> None:
    """The same for every port from `first` to `last`. The kernel takes one at a time: some 0.1 s for all."""
    rule = _PortRule(rights, 0)
    words = [
        ctypes.c_long(_LANDLOCK_ADD_RULE),
        *map(ctypes.c_ulong, (ruleset, _RULE_NET_PORT)),
        ctypes.byref(rule),
        ctypes.c_ulong(0),
    ]
    for port in range(first, last + 1):
        rule.port = port
        if _system_call(*words) < 0:
            checked(-1, f"landlock_add_rule(port {port}, {rights:#x})")


def restrict_self(ruleset: int, flags: int = 0) -> None:
    """Live under the ruleset from now on: this thread and everything it starts."""
    _call(f"landlock_restrict_self({flags:#x})", _LANDLOCK_RESTRICT_SELF, ruleset, flags)


def has_no_new_privileges() -> bool:
    """Whether execve can no longer give this thread anything."""
    return int(_libc.prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)) == 1


def set_filter(program: bytes, flags: int = 0) -> int:
    """Put this thread and everything it starts under a seccomp program (an array of `struct sock_filter`).

    Returns 0, or what `flags` (of seccomp(2), SECCOMP_SET_MODE_FILTER) make the kernel return.
    """
    argument = _FilterProgram(len(program) // _INSTRUCTION_BYTES, program)
    return _call(f"seccomp({argument.length} instructions)", _number("seccomp"), _SET_MODE_FILTER, flags, argument)


@functools.cache
def launcher_key() -> int:
    """A number that only this process knows; the filter lets the holder enter namespaces.

    It must not be asked for before the fork that makes the launcher: a fork would share it.
    """
    return int.from_bytes(os.urandom(8), "little")


def setns(descriptor: int, kind: int) -> None:
    """setns(2) with this launcher's key in an argument that the kernel ignores and the filter compares."""
    checked(_with_key(_number("setns"), descriptor, kind, 0, 0, launcher_key(), 0), "setns with the key")


def unshare(flags: int) -> None:
    """unshare(2) with this launcher's key in an argument that the kernel ignores and the filter compares."""
    checked(_with_key(_number("unshare"), flags, 0, 0, 0, launcher_key(), 0), "unshare with the key")


def open_unobserved(path: str, flags: int, dir_fd: int | None = None) -> int:
    """os.open for reading, with this launcher's key if it has one: the filter then shows it to no observer.

    A launcher has to end what it started also when nobody answers. (Directories that are listed are never shown.)
    """
    if not launcher_key.cache_info().currsize:
        return os.open(path, flags, dir_fd=dir_fd)
    try:
        return openat2(AT_FDCWD if dir_fd is None else dir_fd, path, flags | os.O_CLOEXEC, key=launcher_key())
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
    return os.open(path, flags, dir_fd=dir_fd)  # before Linux 5.6 there is no openat2, and nobody observes either


def machine() -> str:
    """The architecture whose system calls this process makes, empty where it is none of the known ones."""
    name = os.uname().machine
    return name if name in _NUMBERS and ctypes.sizeof(ctypes.c_void_p) == 8 else ""


@functools.cache
def _number(name: str) -> int:
    numbers = _NUMBERS.get(machine())
    if numbers is None:
        raise OSError(_ENOSYS, f"{name} is not known for {os.uname().machine}")
    return numbers[name]

"""The plan's steps that confine: Landlock rules and the seccomp filter, as compiled in the host.

Order in a plan: `no_new_privileges`, `restrict_files`, `load_filter`. Both last for good, and every
command inherits them.
"""

from __future__ import annotations

import binascii
import errno
import os
import stat
import struct
from collections.abc import Callable, Iterator

from . import kernel_confine, kernel_notify
from .kernel_confine import landlock_abi
from .linuxos import O_PATH
from .typed import Any

__all__ = ["CONFINE_STEPS", "landlock_abi", "load_filter", "protect_this_process", "restrict_files", "take_listener"]

_CONSTANT = struct.Struct("<I")
_CONSTANT_OFFSET = 4
_INSTRUCTION_BYTES = 8


def restrict_files(ruleset: dict[str, Any]) -> None:
    """Live under a Landlock ruleset, given as `confine.landlock.Ruleset.to_wire` writes it.

    Nothing is restricted when this raises: the kernel takes a ruleset as a whole.
    """
    _require_no_new_privileges()
    descriptor = kernel_confine.create_ruleset(ruleset["handled_fs"], ruleset["handled_net"], ruleset["scoped"])
    try:
        for path, rights, optional in ruleset["paths"]:
            for place, granted in _without(path, rights, ruleset["hidden"], ruleset["listing"]):
                _allow_path(descriptor, place, granted, ruleset["file_rights"], optional or place != path)
        for port, rights in ruleset["ports"]:
            kernel_confine.allow_port(descriptor, port, rights)
        for first, last, rights in ruleset["port_ranges"]:
            kernel_confine.allow_ports(descriptor, first, last, rights)
        kernel_confine.restrict_self(descriptor, ruleset["flags"])
    finally:
        os.close(descriptor)


def _without(path: str, rights: int, hidden: list[str], listing: int) -> Iterator[tuple[str, int]]:
    """(path, rights) that together grant `path` without what is hidden below it; rules only grant, and reach all the way down."""
    if path in hidden:
        return
    if not any(each.startswith(path + "/") for each in hidden) or not os.path.isdir(path) or os.path.islink(path):
        yield path, rights
        return
    yield path, rights & listing
    for name in os.listdir(path):
        yield from _without(f"{path}/{name}", rights, hidden, listing)


def _allow_path(ruleset: int, path: str, rights: int, file_rights: int, optional: bool) -> None:
    try:
        descriptor = os.open(path, O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        if optional:
            return
        raise
    try:
        granted = rights if stat.S_ISDIR(os.fstat(descriptor).st_mode) else rights & file_rights
        if granted:
            kernel_confine.allow_path(ruleset, descriptor, granted)
    except OSError as error:
        error.add_note(path)
        raise
    finally:
        os.close(descriptor)


def load_filter(program: dict[str, Any]) -> None:
    """Live under a seccomp program, given as `confine.programs.Program.to_wire` writes it, its symbols bound to
    the process that was protected, else to this one."""
    _require_no_new_privileges()
    if program["architecture"] != kernel_confine.machine():
        raise OSError(errno.ENOEXEC, f"a filter for {program['architecture']} would refuse every call here")
    code = _bound(program)
    if program["observed"]:
        _listener.append(kernel_notify.set_observed_filter(code))
    else:
        kernel_confine.set_filter(code)


_listener: list[int] = []


def take_listener() -> int:
    """The listener of the filter that was loaded, which now is the caller's; -1 when nobody observes."""
    return _listener.pop() if _listener else -1


def _bound(program: dict[str, Any]) -> bytes:
    try:
        code = bytearray(binascii.a2b_base64(program["program"], strict_mode=True))
        for index, name, shift in program["symbols"]:
            constant = (_SYMBOLS[name]() >> shift) & 0xFFFFFFFF
            _CONSTANT.pack_into(code, index * _INSTRUCTION_BYTES + _CONSTANT_OFFSET, constant)
    except (binascii.Error, struct.error) as error:
        raise OSError(errno.EINVAL, str(error)) from error
    return bytes(code)


_launcher: tuple[int, int] | None = None
"""Process and group that the filter keeps signals from, where it is not the process that loads it."""


def protect_this_process() -> None:
    """What this process and its children load from now on keeps signals from this one, whoever loads it."""
    global _launcher
    _launcher = os.getpid(), os.getpgrp()


_SYMBOLS: dict[str, Callable[[], int]] = {
    "launcher_pid": lambda: os.getpid() if _launcher is None else _launcher[0],
    "minus_launcher_group": lambda: -(os.getpgrp() if _launcher is None else _launcher[1]),
    "launcher_key": kernel_confine.launcher_key,
}


def _require_no_new_privileges() -> None:
    """Root could confine itself without it, and the programs it starts could then regain rights: never."""
    if not kernel_confine.has_no_new_privileges():
        raise PermissionError(errno.EPERM, "no_new_privileges has to come first")


CONFINE_STEPS: dict[str, Callable[..., Any]] = {
    "load_filter": load_filter,
    "restrict_files": restrict_files,
}
"""Steps by name, to be merged into the launcher's table."""

"""Perform the steps of a plan. A plan is decided in the host and arrives as data: a list of [name, argument ...].

Every step is one small function here; an unknown name is an error, never skipped.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from functools import partial

from . import confine_steps, kernel, mounts, network
from .linuxos import set_ids
from .resource_limits import set_limits
from .typed import Any

NAMESPACES = {
    "user": kernel.CLONE_NEWUSER,
    "mount": kernel.CLONE_NEWNS,
    "pid": kernel.CLONE_NEWPID,
    "ipc": kernel.CLONE_NEWIPC,
    "uts": kernel.CLONE_NEWUTS,
    "net": kernel.CLONE_NEWNET,
}


class StepFailed(Exception):
    """One step could not be performed; `number` is the kernel's errno."""

    def __init__(self, step: str, number: int) -> None:
        super().__init__(step, number)
        self.step, self.number = step, number


def perform(steps: list[list[Any]]) -> None:
    """Perform `steps` in order. Raises StepFailed at the first that fails; the caller must not go on then."""
    for name, *arguments in steps:
        run(name, partial(_perform_one, name, arguments))


def _perform_one(name: str, arguments: list[Any]) -> None:
    _STEPS[name](*arguments)


def run(name: str, act: Callable[[], Any]) -> Any:
    """`act()`, with any failure named after the step."""
    try:
        return act()
    except OSError as error:
        raise StepFailed(name, error.errno or 0) from error
    except (KeyError, TypeError) as error:
        raise StepFailed(f"unknown step {name!r}", 0) from error


def namespace_flags(names: list[str]) -> int:
    """The clone(2) flags of these namespaces."""
    flags = 0
    for name in names:
        flags |= NAMESPACES[name]
    return flags


def become(user: int, group: int) -> None:
    """Give up root for another user, for good. Nothing happens when that is already who we are."""
    if os.geteuid() == user and os.getegid() == group:
        return
    set_ids(user, group)
    # A change of user makes a process undumpable, which would hide its own /proc files from it.
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)


def map_own_ids(user: int, group: int) -> None:
    """In a new user namespace: keep the one user and group id that this process has (user_namespaces(7))."""
    for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        # In bytes: a codec would be looked for in the standard library, which may be out of this user's reach.
        with open(f"/proc/self/{file}", "wb") as out:
            out.write(text.encode())


def default_signals() -> None:
    """Undo what the embedding process may have passed on: blocked and ignored signals."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def die_with_parent() -> None:
    """Be killed when the thread that forked this process ends (PR_SET_PDEATHSIG(2const))."""
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)


def _private_mounts() -> None:
    kernel.mount("none", "/", "none", kernel.MS_REC | kernel.MS_SLAVE)


def _no_new_privileges() -> None:
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)


def _no_root_privileges() -> None:
    """User id 0 gets nothing from execve (capabilities(7), SECBIT_NOROOT), and no file can give anything back."""
    if not kernel.has_capabilities():
        return  # an ordinary user has none to lose, and no_new_privileges keeps any from coming
    kernel.prctl(kernel.PR_SET_SECUREBITS, kernel.SECUREBITS_NOROOT_LOCKED)
    kernel.drop_bounding_set()


def _no_core_files() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


_STEPS: dict[str, Callable[..., Any]] = {
    **confine_steps.CONFINE_STEPS,
    "anchor": mounts.anchor,
    "begin_root": mounts.begin_root,
    "bind": mounts.bind,
    "cover": mounts.cover,
    "devices": mounts.devices,
    "drop_capabilities": kernel.drop_capabilities,
    "enter_root": mounts.enter_root,
    "follow_base": mounts.follow_base,
    "host_name": network.host_name,
    "keep_launcher_capabilities": kernel.keep_launcher_capabilities,
    "loopback_up": network.loopback_up,
    "memory": mounts.memory,
    "mount_proc": mounts.mount_proc,
    "no_core_files": _no_core_files,
    "no_new_privileges": _no_new_privileges,
    "no_root_privileges": _no_root_privileges,
    "private_mounts": _private_mounts,
    "resource_limits": set_limits,
    "seal_root": mounts.seal_root,
    "umask": os.umask,
}

"""What this host's kernel gives an ordinary process: try it in a child, report errno by ability (0 = it works).

Probing is for abilities, never for versions: a kernel that has a call may still refuse it (sysctl, AppArmor, seccomp).
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable

from . import kernel, kernel_confine, kernel_notify, steps
from .control_group import missing_control_group
from .linuxos import set_ids

_NOBODY = 65534
_NAMESPACES = ["mount", "pid", "ipc", "uts", "net"]


def probe(user: int, group: int) -> dict[str, int | str]:
    """errno of each ability (see `confine.Support`), the Landlock ABI and the machine's architecture."""
    through_user, own_proc, own_pid_max, notify = _try(["user", *_NAMESPACES], user, group)
    if through_user or own_proc:
        notify = _in_child(_notify_errno)
    if user == 0:
        own_pid_max = _in_child(lambda: _as_user(_NOBODY, lambda: _try(["user", *_NAMESPACES], _NOBODY, _NOBODY)[2]))
    as_root, own_proc_as_root, *_ = _try(_NAMESPACES, user, group)
    return {
        "user_namespaces": through_user,
        "root_namespaces": as_root,
        "own_proc": own_proc if through_user == 0 else own_proc_as_root,
        "own_pid_max": own_pid_max,
        "control_group": missing_control_group(),
        "seccomp": kernel_confine.filter_errno(),
        "notify": notify,
        "landlock": kernel_confine.landlock_errno(),
        "landlock_abi": kernel_confine.landlock_abi(),
        "machine": platform.machine(),
    }


def _try(namespaces: list[str], user: int, group: int) -> tuple[int, int, int, int]:
    """errno of making these namespaces, of mounting /proc in them, of opening their pid_max for writing, of being observed."""
    read, write = os.pipe()
    try:
        pid = kernel.clone(steps.namespace_flags(namespaces))
        if pid == 0:
            _report(write, namespaces, user, group)
        os.close(write)
        write = -1
        answer = os.read(read, 4)
        os.waitpid(pid, 0)
        return (answer[0], answer[1], answer[2], answer[3]) if len(answer) == 4 else (255, 255, 255, 255)
    except OSError as error:
        return (error.errno or 255,) * 4
    finally:
        os.close(read)
        if write >= 0:
            os.close(write)


def _report(write: int, namespaces: list[str], user: int, group: int) -> None:
    answer = [255, 255, 255, 255]
    try:
        if "user" in namespaces:
            steps.map_own_ids(user, group)
        steps.perform([["private_mounts"]])
        answer[0] = 0
        steps.perform([["mount_proc"]])
        answer[1] = 0
        answer[2] = _pid_max_errno()
        answer[3] = _notify_errno()
    except steps.StepFailed as failure:
        answer[1 if answer[0] == 0 else 0] = failure.number
    except OSError as error:
        answer[0] = error.errno or 255
    finally:
        os.write(write, bytes(answer))
        os._exit(0)


def _pid_max_errno() -> int:
    """Whether pid_max may be written, which is not done. Who is not the host's root may only if it is the namespace's own."""
    try:
        # The mount of the namespace's own /proc has this directory read-only; another mount of the same is not.
        kernel.mount("proc", "/proc", "proc", 0)
        os.close(os.open("/proc/sys/kernel/pid_max", os.O_WRONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno or 255
    return 0


def _as_user(user: int, ask: Callable[[], int]) -> int:
    """What `ask` answers as another user; for root only, whose own answer would say nothing."""
    set_ids(user, user)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
    return ask()


def _notify_errno() -> int:
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    return kernel_notify.listener_errno()


def _in_child(ask: Callable[[], int]) -> int:
    """What `ask` answers in a child, which keeps what it changes to itself."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        answer = 255
        try:
            answer = ask()
        finally:
            os.write(write, bytes([answer]))
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        found = file.read(1)
    os.waitpid(pid, 0)
    return found[0] if found else 255

"""What this host's kernel gives an ordinary process: try it in children, report errno by ability (0 = it works).

Probing is for abilities, never for versions: a kernel that has a call may still refuse it (sysctl, AppArmor, seccomp).
"""

from __future__ import annotations

import os
from collections.abc import Callable

from . import kernel, kernel_confine, kernel_notify, steps
from .control_group import missing_control_group
from .linuxos import set_ids
from .typed import NoReturn

_NOBODY = 65534
_NAMESPACES = ["mount", "pid", "ipc", "uts", "net"]
_NO_ANSWER = 255


def probe(user: int, group: int) -> dict[str, int | str]:
    """errno of each ability (see `confine.Support`), the Landlock ABI and the machine's architecture."""
    # All begin before the first is waited for: most of the time goes by while the kernel takes namespaces down.
    inside = _Child(["user", *_NAMESPACES], lambda: _abilities(lambda: steps.map_own_ids(user, group)))
    inside_as_root = _Child(_NAMESPACES, lambda: _abilities(lambda: None))
    outside = _Child([], lambda: [_notify_errno()])
    nobody = _Child([], _pid_max_of_nobody) if user == 0 else None
    through_user, own_proc, own_pid_max, notify = inside.answer(4)
    as_root, own_proc_as_root, *_ = inside_as_root.answer(4)
    (notify_outside,) = outside.answer(1)
    if nobody is not None:
        (own_pid_max,) = nobody.answer(1)
    return {
        "user_namespaces": through_user,
        "root_namespaces": as_root,
        "own_proc": own_proc if through_user == 0 else own_proc_as_root,
        "own_pid_max": own_pid_max,
        "control_group": missing_control_group(),
        "seccomp": kernel_confine.filter_errno(),
        "notify": notify_outside if through_user or own_proc else notify,
        "landlock": kernel_confine.landlock_errno(),
        "landlock_abi": kernel_confine.landlock_abi(),
        "machine": os.uname().machine,
    }


class _Child:
    """Tries something in new namespaces, in a process of its own: what it changes it keeps to itself."""

    def __init__(self, namespaces: list[str], attempt: Callable[[], list[int]]) -> None:
        self._pid = self._errno = 0
        self._answer, write = os.pipe()
        try:
            self._pid = kernel.clone(steps.namespace_flags(namespaces))
        except OSError as error:
            self._errno = error.errno or _NO_ANSWER
        else:
            if self._pid == 0:
                _report(write, attempt)
        finally:
            os.close(write)

    def answer(self, size: int) -> list[int]:
        """Its so many numbers; the errno of starting it for each where it could not be had, 255 where it did not answer."""
        with os.fdopen(self._answer, "rb") as file:
            found = list(file.read())
        if self._pid:
            os.waitpid(self._pid, 0)
        return found if len(found) == size else [self._errno or _NO_ANSWER] * size


def _report(write: int, attempt: Callable[[], list[int]]) -> NoReturn:
    try:
        os.write(write, bytes(attempt()))
    finally:
        os._exit(0)


def _abilities(become: Callable[[], None]) -> list[int]:
    """errno of making these namespaces, of mounting /proc in them, of opening their pid_max for writing, of being observed."""
    answer = [_NO_ANSWER] * 4
    try:
        become()
        steps.perform([["private_mounts"]])
        answer[0] = 0
        steps.perform([["mount_proc"]])
        answer[1] = 0
        answer[2] = _pid_max_errno()
        answer[3] = _notify_errno()
    except steps.StepFailed as failure:
        answer[1 if answer[0] == 0 else 0] = failure.number
    except OSError as error:
        answer[0] = error.errno or _NO_ANSWER
    return answer


def _pid_max_errno() -> int:
    """Whether pid_max may be written, which is not done. Who is not the host's root may only if it is the namespace's own."""
    try:
        # The mount of the namespace's own /proc has this directory read-only; another mount of the same is not.
        kernel.mount("proc", "/proc", "proc", 0)
        os.close(os.open("/proc/sys/kernel/pid_max", os.O_WRONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno or _NO_ANSWER
    return 0


def _pid_max_of_nobody() -> list[int]:
    """The same as another user; for root only, whose own answer would say nothing."""
    set_ids(_NOBODY, _NOBODY)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
    inside = _Child(["user", *_NAMESPACES], lambda: _abilities(lambda: steps.map_own_ids(_NOBODY, _NOBODY)))
    return inside.answer(4)[2:3]


def _notify_errno() -> int:
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    return kernel_notify.listener_errno()

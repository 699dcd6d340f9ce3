"""What this host's kernel gives an ordinary process: try it in a child, report errno by ability (0 = it works).

Probing is for abilities, never for versions: a kernel that has a call may still refuse it (sysctl, AppArmor, seccomp).
"""

from __future__ import annotations

import os
import platform

from . import kernel, kernel_confine, steps

_NAMESPACES = ["mount", "pid", "ipc", "uts", "net"]


def probe(user: int, group: int) -> dict[str, int | str]:
    """errno of each ability (see `confine.Support`), the Landlock ABI and the machine's architecture."""
    through_user, own_proc = _try(["user", *_NAMESPACES], user, group)
    as_root, own_proc_as_root = _try(_NAMESPACES, user, group)
    return {
        "user_namespaces": through_user,
        "root_namespaces": as_root,
        "own_proc": own_proc if through_user == 0 else own_proc_as_root,
        "seccomp": kernel_confine.filter_errno(),
        "landlock": kernel_confine.landlock_errno(),
        "landlock_abi": kernel_confine.landlock_abi(),
        "machine": platform.machine(),
    }


def _try(namespaces: list[str], user: int, group: int) -> tuple[int, int]:
    """errno of making these namespaces, and of mounting /proc in them."""
    read, write = os.pipe()
    try:
        pid = kernel.clone(steps.namespace_flags(namespaces))
        if pid == 0:
            _report(write, namespaces, user, group)
        os.close(write)
        write = -1
        answer = os.read(read, 2)
        os.waitpid(pid, 0)
        return (answer[0], answer[1]) if len(answer) == 2 else (255, 255)
    except OSError as error:
        return error.errno or 255, error.errno or 255
    finally:
        os.close(read)
        if write >= 0:
            os.close(write)


def _report(write: int, namespaces: list[str], user: int, group: int) -> None:
    answer = [255, 255]
    try:
        if "user" in namespaces:
            steps.map_own_ids(user, group)
        steps.perform([["private_mounts"]])
        answer[0] = 0
        steps.perform([["mount_proc"]])
        answer[1] = 0
    except steps.StepFailed as failure:
        answer[1 if answer[0] == 0 else 0] = failure.number
    except OSError as error:
        answer[0] = error.errno or 255
    finally:
        os.write(write, bytes(answer))
        os._exit(0)

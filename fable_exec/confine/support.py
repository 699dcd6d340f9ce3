"""What a probe found out about this host. Values only."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

import attrs

from fable_exec.confine.seccomp import ARCHITECTURES

_MEANINGS = {
    errno.ENOSPC: "user.max_user_namespaces is 0 or used up",
    errno.EPERM: "refused by AppArmor, SELinux or a container's seccomp profile",
    errno.ENOSYS: "this kernel is built without it",
    errno.EACCES: "refused by a security module",
    errno.EBUSY: "the process that runs this is observed by such a filter itself",
}
_SHORTAGES = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
"""Of processes, memory and descriptors: no answer to what a kernel can do (fork(2), open(2))."""


@attrs.frozen(kw_only=True)
class Support:
    """errno of each ability when it was tried (0 = it works).

    Args:
        user_namespaces: PID, mount, IPC and UTS namespaces through a user namespace.
        root_namespaces: the same without a user namespace, which needs root.
        own_proc: a /proc of one's own inside them.
        own_pid_max: a pid_max of one's own inside them (Linux 6.14).
        control_group: why commands cannot have a control group of their own; empty when they could.
        seccomp: a filter of system calls.
        notify: a filter that shows calls to an observer.
        landlock_abi: the version of Landlock's interface, 0 where there is none; `landlock` is the errno then.
        machine: the architecture, as uname(2) has it.
    """

    user_namespaces: int
    root_namespaces: int
    own_proc: int
    own_pid_max: int = errno.ENOSYS
    control_group: str = ""
    seccomp: int = 0
    notify: int = errno.ENOSYS
    landlock: int = 0
    landlock_abi: int = 0
    machine: str = ""

    @classmethod
    def from_probe(cls, found: Mapping[str, Any]) -> Support:
        """The launcher program's answer as a value."""
        return cls(**found)

    @property
    def shortage(self) -> int:
        """The errno of a shortage while the host was asked, and 0 for none: then what seems to be missing may be there."""
        namespaces = (self.user_namespaces, self.root_namespaces, self.own_proc, self.own_pid_max)
        answers = (*namespaces, self.seccomp, self.notify, self.landlock)
        return next((number for number in answers if number in _SHORTAGES), 0)

    @property
    def landlock_reason(self) -> str:
        """Why there is no Landlock; empty when there is."""
        return "" if self.landlock_abi else f"no Landlock ({explain_errno(self.landlock) or 'not asked'})"

    @property
    def seccomp_reason(self) -> str:
        """Why there is no seccomp filter; empty when there is. Without tables for a machine there is none to load."""
        if self.machine not in ARCHITECTURES:
            return f"no table of system calls for {self.machine or 'this machine'}"
        return f"no seccomp ({explain_errno(self.seccomp)})" if self.seccomp else ""

    @property
    def namespaces(self) -> bool:
        """Whether a launcher can have namespaces of its own, one way or the other."""
        return self.user_namespaces == 0 or self.root_namespaces == 0


def explain_errno(number: int) -> str:
    """Why an ability is missing, in a few words; empty when it is there. What to do about it is for `confine.remedies`."""
    if number == 0:
        return ""
    name = errno.errorcode.get(number, str(number))
    meaning = _MEANINGS.get(number)
    return f"{name}: {meaning}" if meaning else name

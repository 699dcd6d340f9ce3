"""What an operator can do about what is missing. Pure tables; what is missing is found elsewhere."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from fable_exec.confine import LaunchMode, Support

__all__ = ["ability_remedy", "protection_remedy"]

_REMEDIES: dict[str, dict[int, str]] = {
    "namespaces": {
        errno.ENOSPC: "sysctl user.max_user_namespaces=15000 (it is 0 or used up)",
        errno.EPERM: "Ubuntu 23.10 and newer: an AppArmor profile with `userns,` for this Python, or sysctl "
        "kernel.apparmor_restrict_unprivileged_userns=0; older Debian: sysctl kernel.unprivileged_userns_clone=1; "
        "Docker and Kubernetes: a seccomp profile that allows unshare, clone, mount, pivot_root and setns",
        errno.EACCES: "allow user namespaces for this program in the security module's policy",
        errno.EUSERS: "namespaces are nested too deeply: start it further outside",
        errno.ENOSYS: "a kernel with CONFIG_USER_NS and CONFIG_PID_NS",
        errno.EINVAL: "a kernel with CONFIG_USER_NS and CONFIG_PID_NS",
    },
    "own_proc": {
        errno.EPERM: "in a container, leave /proc unmasked: docker run --security-opt systempaths=unconfined, or procMount: "
        "Unmasked in Kubernetes",
    },
    "seccomp": {
        errno.EINVAL: "a kernel with CONFIG_SECCOMP_FILTER",
        errno.ENOSYS: "a kernel with CONFIG_SECCOMP_FILTER",
    },
    "landlock": {
        errno.ENOSYS: "Linux 5.13 or newer (better 6.12, ABI 6) with CONFIG_SECURITY_LANDLOCK; in Docker, a seccomp profile that "
        "allows the landlock_ calls: the default one of Docker 20.10.7 and newer does",
        errno.EOPNOTSUPP: "boot with landlock in the list of lsm=",
    },
}
_SECOND_BEST = "look at what the reason names; the launcher is refused it here"

_FILES = ("namespaces", "landlock")
_NEEDS: dict[str, tuple[str, ...]] = {
    "workspace_writes": _FILES,
    "host_writes": _FILES,
    "host_metadata": ("namespaces",),
    "host_reads": _FILES,
    "later_files": ("namespaces",),
    "network": ("namespaces", "seccomp", "landlock"),
    "host_sockets": ("namespaces", "seccomp", "landlock"),
    "whole_tree_end": ("namespaces", "seccomp"),
    "other_processes": ("namespaces", "own_proc"),
    "kernel_surface": ("seccomp",),
    "resources": ("namespaces", "own_proc"),
}
"""The abilities that a protection stands on."""

_OTHERWISE: dict[str, str] = {
    "resources": "nothing yet: control groups are not used; put limits on a container or a systemd scope around it",
    "later_files": "raise fs.inotify.max_user_watches and fs.inotify.max_user_instances if the reason names watching",
}
"""What else helps where the abilities are all there."""


def ability_remedy(name: str, number: int) -> str:
    """What to do about an ability that answered `number`; empty when it is there."""
    return _REMEDIES.get(name, {}).get(number, _SECOND_BEST) if number else ""


def protection_remedy(protection: str, support: Support, launch: LaunchMode) -> str:
    """What to do about a protection that does not fully hold; empty when nothing on this host is known to help."""
    missing = list(_missing(support))
    needed = [name for name in missing if name in _NEEDS.get(protection, ())]
    if needed:
        return f"mend {' and '.join(needed)}"
    return 'set launch = "auto" in the policy' if launch != "auto" else _OTHERWISE.get(protection, "")


def _missing(support: Support) -> Iterator[str]:
    if not support.namespaces:
        yield "namespaces"
    if support.own_proc:
        yield "own_proc"
    if support.seccomp:
        yield "seccomp"
    if not support.landlock_abi:
        yield "landlock"

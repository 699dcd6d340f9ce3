"""What an operator can do about what is missing: pure tables, for `doctor` and for what is refused."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from fable_exec.confine.plan import LaunchMode
from fable_exec.confine.support import Support

__all__ = ["ability_remedy", "protection_remedy", "remedy_in_full"]

_REMEDIES: dict[str, dict[int, str]] = {
    "namespaces": {
        errno.ENOSPC: "sysctl user.max_user_namespaces=15000",
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
    "notifications": {
        errno.EBUSY: "nothing is weaker: `denials` tells of no refusals here; start the broker outside what observes it",
        errno.EINVAL: "nothing is weaker: `denials` tells of no refusals before Linux 5.6",
        errno.ENOSYS: "nothing is weaker: `denials` tells of no refusals before Linux 5.6",
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
    needed = [name for name, _ in _lacking(protection, support)]
    if needed:
        return f"mend {' and '.join(needed)}, as the rows of the abilities say"
    return 'set launch = "auto" in the policy' if launch != "auto" else _OTHERWISE.get(protection, "")


def remedy_in_full(protection: str, support: Support, launch: LaunchMode) -> str:
    """The same with what to do about each missing ability, for whoever sees no table of them."""
    found = [f"{name}: {ability_remedy(name, number)}" for name, number in _lacking(protection, support)]
    return "; ".join(found) or protection_remedy(protection, support, launch)


def _lacking(protection: str, support: Support) -> list[tuple[str, int]]:
    """The abilities that `protection` stands on and that are not there, each with its errno."""
    return [(name, number) for name, number in _missing(support) if name in _NEEDS.get(protection, ())]


def _missing(support: Support) -> Iterator[tuple[str, int]]:
    if not support.namespaces:
        yield "namespaces", support.user_namespaces
    if support.own_proc:
        yield "own_proc", support.own_proc
    if support.seccomp:
        yield "seccomp", support.seccomp
    if not support.landlock_abi:
        yield "landlock", support.landlock

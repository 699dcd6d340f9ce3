"""Which system calls commands may not make: the rule sets of the launch modes, as data.

`strict` is for commands in namespaces of their own, `plain` adds what namespaces would otherwise keep apart. Two principles:
calls that programs can live without answer ENOSYS, as on a kernel built without them; the rest answers what the kernel would tell
an ordinary user. And a socket is refused when it is made, never when it is used: asyncio, multiprocessing and node depend on
socket pairs. docs/reference/confinement-filters.md is made from this table.
"""

from __future__ import annotations

from typing import Literal

from fable_exec.confine.bpf import Symbol
from fable_exec.confine.seccomp import (
    ALLOW,
    EACCES,
    EAFNOSUPPORT,
    ENOSYS,
    EOPNOTSUPP,
    EPERM,
    EPROTONOSUPPORT,
    Action,
    Condition,
    Rule,
    deny,
)

__all__ = ["LAUNCHER_GROUP", "LAUNCHER_KEY", "LAUNCHER_PID", "SECTIONS", "Inet", "Metadata", "Unix", "plain", "strict"]

Inet = Literal["off", "tcp", "guarded", "full"]
"""off: no internet sockets. tcp: TCP alone, the ports being Landlock's matter. full: TCP, UDP and echo requests.
guarded: full, where Landlock keeps some ports and nothing may connect past it."""
Unix = Literal["all", "pairs"]
"""all: the host's sockets are hidden by namespaces. pairs: only connected pairs, which can reach nobody else."""
Metadata = Literal["allow", "deny"]

LAUNCHER_PID = "launcher_pid"
LAUNCHER_GROUP = "minus_launcher_group"
LAUNCHER_KEY = "launcher_key"
"""Bound by the step that loads the filter: the launcher's process id, its group's as kill(2) takes it, and a random 64-bit number
that the launcher passes in an argument the kernel ignores, so that it alone may still enter namespaces."""

_ABSENT = deny(ENOSYS)
_REFUSED = deny(EPERM)
_NO_ACCESS = deny(EACCES)
_NO_FAMILY = deny(EAFNOSUPPORT)
_NO_PROTOCOL = deny(EPROTONOSUPPORT)

_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_NEW_TIME_NAMESPACE = 0x80  # only for unshare(2): in clone(2) these bits are the exit signal

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_STREAM, _DATAGRAM, _RAW, _SEQPACKET = 1, 2, 3, 5
_TYPE_BITS = 0xF  # the rest of the argument is SOCK_NONBLOCK and SOCK_CLOEXEC
_ANY, _ICMP, _TCP, _UDP, _ICMPV6 = 0, 1, 6, 17, 58
_MSG_FASTOPEN = 0x20000000

_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_FIOSETOWN, _SIOCSPGRP = 0x8901, 0x8902
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX = 8, 10, 15
# FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_SETVERSION, FS_IOC_ENABLE_VERITY, FS_IOC_SET_ENCRYPTION_POLICY: for all of them a
# descriptor opened for reading is enough.
_INODE_CHANGES = (0x40086602, 0x401C5820, 0x40087602, 0x40806685, 0x800C6613)

_SET_USER, _SET_GROUP = 0o4000, 0o2000
_CREATES = 0x40 | 0x400000  # O_CREAT, and what O_TMPFILE is without O_DIRECTORY

_PER_LINUX32, _UNAME26, _ADDR_NO_RANDOMIZE = 0x8, 0x20000, 0x40000
_ASK_PERSONALITY = 0xFFFFFFFF
_PRIO_PROCESS, _PRIO_USER = 0, 2
_IOPRIO_WHO_PROCESS, _IOPRIO_WHO_USER = 1, 3
_EVERYBODY = 0xFFFFFFFF  # -1 as kill(2) takes it


def strict(
    *,
    inet: Inet = "off",
    unix: Unix = "all",
    metadata: Metadata = "allow",
    enters_namespaces: bool = True,
    has_init: bool = False,
) -> tuple[Rule, ...]:
    """The rules for commands with PID, mount, IPC and network namespaces of their own.

    Args:
        inet: internet sockets.
        unix: sockets of this machine.
        metadata: "deny" refuses every change of mode, owner, times, attributes: for where mounts cannot.
        enters_namespaces: the launcher, which lives under the same filter, enters slots: `setns` and `unshare` then remain open
            to the holder of its key.
        has_init: process 1 of the commands' PID namespace is an init of ours, and none of them.
    """
    return (
        *(_LAUNCHER_ENTERS if enters_namespaces else ()),
        *_KERNEL_SURFACE,
        *_SET_IDS,
        *_OTHER_PROCESSES,
        *(_OWN_INIT if has_init else ()),
        *_sockets(inet, unix),
        *(_METADATA if metadata == "deny" else ()),
    )


def plain(*, inet: Inet = "off", unix: Unix = "pairs", metadata: Metadata = "allow") -> tuple[Rule, ...]:
    """The rules for commands that share the host's namespaces with their launcher."""
    return (*strict(inet=inet, unix=unix, metadata=metadata, enters_namespaces=False), *_SHARED_NAMESPACES)


def _holds_key(argument: int) -> Condition:
    return Condition(argument=argument, mask=2**64 - 1, values=(Symbol(LAUNCHER_KEY),), wide=True)


def _is(argument: int, *values: int | Symbol, mask: int = 0xFFFFFFFF) -> Condition:
    return Condition(argument=argument, values=values, mask=mask)


def _is_not(argument: int, *values: int | Symbol, mask: int = 0xFFFFFFFF) -> Condition:
    return Condition(argument=argument, values=values, mask=mask, among=False)


def _rule(why: str, action: Action, calls: str, *when: Condition, protection: str = "") -> Rule:
    return Rule(tuple(calls.split()), action, when, why, protection)


def _surface(why: str, action: Action, calls: str, *when: Condition) -> Rule:
    """A refusal that is worth reporting: no ordinary program tries this and does without."""
    return _rule(why, action, calls, *when, protection="kernel_surface")


def _kept(why: str, action: Action, calls: str, *when: Condition) -> Rule:
    """A change that only the filter keeps from a locked workspace."""
    return _rule(why, action, calls, *when, protection="workspace_writes")


_LAUNCHER_ENTERS = (_rule("the launcher enters a slot; the key is its own", ALLOW, "setns unshare", _holds_key(4)),)

_KERNEL_SURFACE = (
    _rule("io_uring performs calls that no filter sees", _ABSENT, "io_uring_setup io_uring_enter io_uring_register"),
    _rule("clone3 hides its flags in memory; callers fall back to clone", _ABSENT, "clone3"),
    _surface("new namespaces bring capabilities", _REFUSED, "clone", Condition.any_bit(0, _NEW_NAMESPACES)),
    _surface("", _REFUSED, "unshare", Condition.any_bit(0, _NEW_NAMESPACES | _NEW_TIME_NAMESPACE)),
    _surface("", _REFUSED, "setns"),
    _rule("kernel keyrings are shared beyond namespaces", _ABSENT, "add_key request_key keyctl"),
    _rule("a frequent part of kernel exploits", _ABSENT, "userfaultfd"),
    _surface("", _REFUSED, "bpf"),
    _surface("the answer of perf_event_paranoid", _NO_ACCESS, "perf_event_open"),
    _surface("mounts", _REFUSED, "mount umount2 pivot_root chroot"),
    _rule(
        "mounts, by the newer interface",
        _ABSENT,
        "open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr",
    ),
    _surface("kernel code", _REFUSED, "init_module finit_module delete_module create_module kexec_load kexec_file_load"),
    _surface("the machine", _REFUSED, "reboot swapon swapoff acct syslog vhangup quotactl quotactl_fd iopl ioperm"),
    _surface("clock and names", _REFUSED, "settimeofday clock_settime adjtimex clock_adjtime sethostname setdomainname"),
    _surface("opens files past every path rule", _REFUSED, "open_by_handle_at"),
    _rule("as on a file system without handles", deny(EOPNOTSUPP), "name_to_handle_at"),
    _rule("relics", _ABSENT, "lookup_dcookie nfsservctl uselib _sysctl"),
    _rule(
        "only harmless personalities: reading, uname's answer, fixed addresses",
        _REFUSED,
        "personality",
        Condition.any_bit(0, 0xFFFFFFFF & ~(_PER_LINUX32 | _UNAME26 | _ADDR_NO_RANDOMIZE)),
        _is_not(0, _ASK_PERSONALITY),
    ),
    _rule("types into the terminal (the kernel reads 32 bits)", _REFUSED, "ioctl", _is(1, _TIOCSTI, _TIOCLINUX)),
)

_SET_IDS = (
    _rule("whoever runs the file later would act as its owner", _REFUSED, "chmod fchmod", Condition.any_bit(1, _SET_USER)),
    _rule("", _REFUSED, "fchmodat fchmodat2", Condition.any_bit(2, _SET_USER)),
    _rule("such a file, made at once", _REFUSED, "creat mknod", Condition.any_bit(1, _SET_USER | _SET_GROUP)),
    _rule("", _REFUSED, "mknodat", Condition.any_bit(2, _SET_USER | _SET_GROUP)),
    _rule("", _REFUSED, "open", Condition.any_bit(1, _CREATES), Condition.any_bit(2, _SET_USER | _SET_GROUP)),
    _rule("", _REFUSED, "openat", Condition.any_bit(2, _CREATES), Condition.any_bit(3, _SET_USER | _SET_GROUP)),
    _rule("the launcher opens a working directory; the key is its own", ALLOW, "openat2", _holds_key(4)),
    _rule("openat2 hides its mode in memory; callers fall back to openat", _ABSENT, "openat2"),
)

_OTHER_PROCESSES = (
    _rule(
        "memory and descriptors of others",
        _REFUSED,
        "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp",
        protection="other_processes",
    ),
    _rule("pages of others", _REFUSED, "migrate_pages move_pages", _is_not(0, 0)),
)

_INIT = 1
_OWN_INIT = (
    _rule("limits and scheduling of the init, a process of the same user", _REFUSED, "prlimit64", _is(0, _INIT)),
    _rule("", _REFUSED, "sched_setaffinity sched_setscheduler sched_setparam sched_setattr", _is(0, _INIT)),
    _rule("", _REFUSED, "setpriority", _is(0, _PRIO_PROCESS), _is(1, _INIT)),
    _rule("", _REFUSED, "ioprio_set", _is(0, _IOPRIO_WHO_PROCESS), _is(1, _INIT)),
    _rule("every process of this user", _REFUSED, "setpriority", _is(0, _PRIO_USER)),
    _rule("", _REFUSED, "ioprio_set", _is(0, _IOPRIO_WHO_USER)),
)

_METADATA = (
    _kept("mode", _REFUSED, "chmod fchmod fchmodat fchmodat2"),
    _kept("owner", _REFUSED, "chown fchown lchown fchownat"),
    _kept("times", _REFUSED, "utime utimes futimesat utimensat"),
    _kept("extended attributes", _REFUSED, "setxattr lsetxattr fsetxattr setxattrat"),
    _kept("", _REFUSED, "removexattr lremovexattr fremovexattr removexattrat"),
    _kept("inode flags", _REFUSED, "file_setattr"),
    _kept("", _REFUSED, "ioctl", _is(1, *_INODE_CHANGES)),
)

_TARGETS = (Symbol(LAUNCHER_PID), _EVERYBODY, Symbol(LAUNCHER_GROUP))

_SHARED_NAMESPACES = (
    _rule("signals to the launcher, to its group, to everybody", _REFUSED, "kill", _is(0, *_TARGETS)),
    _rule("", _REFUSED, "tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo", _is(0, *_TARGETS)),
    _rule("", _REFUSED, "tgkill rt_tgsigqueueinfo", _is(1, Symbol(LAUNCHER_PID))),
    _rule("", _REFUSED, "pidfd_open", _is(0, Symbol(LAUNCHER_PID))),
    _rule("a /proc/PID directory is a handle too; callers fall back to kill", _ABSENT, "pidfd_send_signal"),
    _rule("limits and scheduling of others", _REFUSED, "prlimit64", _is_not(0, 0)),
    _rule("", _REFUSED, "sched_setaffinity sched_setscheduler sched_setparam sched_setattr", _is_not(0, 0)),
    _rule("", _REFUSED, "setpriority", _is_not(1, 0)),
    _rule("every process of this user", _REFUSED, "setpriority", _is(0, _PRIO_USER)),
    _rule("", _REFUSED, "ioprio_set", _is_not(1, 0)),
    _rule("every process of this user", _REFUSED, "ioprio_set", _is(0, _IOPRIO_WHO_USER)),
    _rule("signals by way of a descriptor's owner", _REFUSED, "fcntl", _is(1, _F_SETOWN, _F_SETSIG, _F_SETOWN_EX)),
    _rule("", _REFUSED, "ioctl", _is(1, _FIOSETOWN, _SIOCSPGRP)),
    _rule("System V memory, by name or by a guessed number", _NO_ACCESS, "shmget shmat shmctl"),
    _rule("System V queues", _NO_ACCESS, "msgget msgsnd msgrcv msgctl"),
    _rule("System V semaphores", _NO_ACCESS, "semget semop semtimedop semctl"),
    _rule("POSIX message queues", _NO_ACCESS, "mq_open mq_unlink"),
)


def _sockets(inet: Inet, unix: Unix) -> tuple[Rule, ...]:
    return (*_INET_RULES[inet], *_UNIX_RULES[unix], *_families(inet))


def _internet(why: str, action: Action, *when: Condition) -> Rule:
    return _rule(why, action, "socket", _is(0, _AF_INET, _AF_INET6), *when, protection="network")


_FAST_OPEN = (
    _rule("TCP Fast Open connects without connect()", _NO_ACCESS, "sendto sendmmsg", Condition.any_bit(3, _MSG_FASTOPEN)),
    _rule("", _NO_ACCESS, "sendmsg", Condition.any_bit(2, _MSG_FASTOPEN)),
)
_FULL = (
    _internet("raw packets", _REFUSED, _is_not(1, _STREAM, _DATAGRAM, mask=_TYPE_BITS)),
    _internet("multipath TCP, SCTP, SMC", _NO_PROTOCOL, _is(1, _STREAM, mask=_TYPE_BITS), _is_not(2, _ANY, _TCP)),
    _internet(
        "UDP-Lite and other datagrams",
        _NO_PROTOCOL,
        _is(1, _DATAGRAM, mask=_TYPE_BITS),
        _is_not(2, _ANY, _UDP, _ICMP, _ICMPV6),
    ),
)

_INET_RULES: dict[Inet, tuple[Rule, ...]] = {
    "off": (_internet("the network is off", _NO_ACCESS),),
    "tcp": (
        _internet("port rules know TCP alone: no datagrams", _NO_ACCESS, _is_not(1, _STREAM, mask=_TYPE_BITS)),
        _internet("multipath TCP, SCTP, SMC have no port rules", _NO_PROTOCOL, _is_not(2, _ANY, _TCP)),
        *_FAST_OPEN,
    ),
    "guarded": (*_FULL, *_FAST_OPEN),
    "full": _FULL,
}

_UNIX_RULES: dict[Unix, tuple[Rule, ...]] = {
    "all": (),
    "pairs": (
        _rule("sockets of the host", _NO_ACCESS, "socket", _is(0, _AF_UNIX), protection="host_sockets"),
        _rule(
            "a datagram pair can be given another address",
            _NO_ACCESS,
            "socketpair",
            _is(0, _AF_UNIX),
            _is_not(1, _STREAM, _SEQPACKET, mask=_TYPE_BITS),
        ),
    ),
}


def _families(inet: Inet) -> tuple[Rule, ...]:
    """Every other family is refused: packet, netlink, vsock, the crypto interface, XDP, Bluetooth and those yet to come."""
    known = [_AF_INET, _AF_INET6, _AF_UNIX]
    netlink: tuple[Rule, ...] = ()
    if inet != "off":
        known.append(_AF_NETLINK)
        netlink = (_rule("routes and addresses only", _NO_PROTOCOL, "socket", _is(0, _AF_NETLINK), _is_not(2, 0)),)
    return (
        *netlink,
        _rule("packet, netlink, vsock, crypto, XDP, Bluetooth and all others", _NO_FAMILY, "socket", _is_not(0, *known)),
        _rule("", _NO_FAMILY, "socketpair", _is_not(0, _AF_UNIX)),
    )


SECTIONS: dict[str, tuple[Rule, ...]] = {
    "The launcher itself (strict)": _LAUNCHER_ENTERS,
    "Kernel surface (always)": _KERNEL_SURFACE,
    "Set-user-ID and set-group-ID files (always)": _SET_IDS,
    "Other processes (always)": _OTHER_PROCESSES,
    "The init (strict, where process 1 is none of the commands: slots and supervised jobs)": _OWN_INIT,
    "Internet sockets, inet = off": _INET_RULES["off"],
    "Internet sockets, inet = tcp": _INET_RULES["tcp"],
    "Internet sockets, inet = guarded": _INET_RULES["guarded"],
    "Internet sockets, inet = full": _INET_RULES["full"],
    "Sockets of this machine, unix = pairs (the default of plain)": _UNIX_RULES["pairs"],
    "Other families, inet = off": _families("off"),
    "Other families, inet = tcp, guarded or full": _families("tcp"),
    "Changes of metadata, metadata = deny": _METADATA,
    "What namespaces would keep apart (plain)": _SHARED_NAMESPACES,
}
"""Every rule by the setting that brings it in, for the reference page."""

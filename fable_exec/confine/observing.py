"""Which calls of commands are shown to an observer before they go on, and what it has to know to tell which are refused. Pure.

Reports only: a call that the filter refuses stays refused, by the observer instead of the filter, and every other one is decided
by the kernel after the observer has seen it. docs/explanation/denials.md says what it costs and what it misses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from fable_exec.confine.plan import LauncherMode
from fable_exec.confine.seccomp import ARCHITECTURES, NOTIFY, Condition, Rule, Verdict, notify
from fable_exec.confine.support import Support, explain_errno
from fable_exec.policy.confinement import Confinement

__all__ = ["observed", "observer_of", "why_not_observed"]

_CHANGING_FLAGS = 0x3 | 0x40 | 0x200  # O_ACCMODE, O_CREAT, O_TRUNC
_HANDLE_FLAG = 0x200000  # O_PATH: nothing is opened
_LISTING_FLAGS = 0x10000 | 0x4000  # O_DIRECTORY of both machines, which is O_DIRECT on the other
_NO_LINK, _LINK = -2, -1

_FILE_CALLS: dict[str, tuple[Any, ...]] = {
    "open": ("open", "open", (-1, 0, 1)),
    "openat": ("open", "open", (0, 1, 2)),
    "creat": ("open", "open", (-1, 0, -1)),
    "truncate": ("truncate", "regular", (-1, 0, _LINK)),
    "mkdir": ("mkdir", "absent", (-1, 0, _NO_LINK)),
    "mkdirat": ("mkdir", "absent", (0, 1, _NO_LINK)),
    "mknod": ("mknod", "absent file", (-1, 0, _NO_LINK)),
    "mknodat": ("mknod", "absent file", (0, 1, _NO_LINK)),
    "rmdir": ("rmdir", "empty", (-1, 0, _NO_LINK)),
    "unlink": ("unlink", "file", (-1, 0, _NO_LINK)),
    "unlinkat": ("unlink", "unlinkat", (0, 1, _NO_LINK)),
    "rename": ("rename", "rename", (-1, 0, _NO_LINK), (-1, 1, _NO_LINK)),
    "renameat": ("rename", "rename", (0, 1, _NO_LINK), (2, 3, _NO_LINK)),
    "renameat2": ("rename", "renameat2", (0, 1, _NO_LINK), (2, 3, _NO_LINK)),
    "link": ("link", "link", (-1, 0, _NO_LINK), (-1, 1, _NO_LINK)),
    "linkat": ("link", "linkat", (0, 1, _NO_LINK), (2, 3, _NO_LINK)),
    "symlink": ("symlink", "absent file", (-1, 1, _NO_LINK)),
    "symlinkat": ("symlink", "absent file", (1, 2, _NO_LINK)),
}
"""Calls that change files, for the observer: the word for reports, how it is to be read, and where its paths are.

A place is (argument of the directory's descriptor or -1, argument of the path, links): the last is -1 where a link at the end is
followed, -2 where it is not, else the argument with AT_SYMLINK_NOFOLLOW. How it is read is a word for what must be there lest the
kernel complain of that first (the launcher's `observed_paths` has these words), or, where a call has two paths or flags that say
what it does, its name ("open": the argument of the flags is the last of its place)."""

_METADATA_CALLS: dict[str, tuple[Any, ...]] = {
    "chmod": ("chmod", "present", (-1, 0, _LINK)),
    "fchmod": ("chmod", "present", (0, -1, _LINK)),
    "fchmodat": ("chmod", "present", (0, 1, _LINK)),
    "fchmodat2": ("chmod", "present", (0, 1, 3)),
    "chown": ("chown", "present", (-1, 0, _LINK)),
    "lchown": ("chown", "present", (-1, 0, _NO_LINK)),
    "fchown": ("chown", "present", (0, -1, _LINK)),
    "fchownat": ("chown", "present", (0, 1, 4)),
    "utime": ("utime", "present", (-1, 0, _LINK)),
    "utimes": ("utime", "present", (-1, 0, _LINK)),
    "futimesat": ("utime", "present", (0, 1, _LINK)),
    "utimensat": ("utime", "present", (0, 1, 3)),
    "setxattr": ("setxattr", "present", (-1, 0, _LINK)),
    "lsetxattr": ("setxattr", "present", (-1, 0, _NO_LINK)),
    "fsetxattr": ("setxattr", "present", (0, -1, _LINK)),
    "setxattrat": ("setxattr", "present", (0, 1, 2)),
    "removexattr": ("removexattr", "present", (-1, 0, _LINK)),
    "lremovexattr": ("removexattr", "present", (-1, 0, _NO_LINK)),
    "fremovexattr": ("removexattr", "present", (0, -1, _LINK)),
    "removexattrat": ("removexattr", "present", (0, 1, 2)),
}

_ADDRESS_CALLS: dict[str, tuple[Any, ...]] = {
    "connect": ("connect", "address", 1, 2),
    "bind": ("bind", "address", 1, 2),
    "sendto": ("send", "address", 4, 5),
    "sendmsg": ("send", "message", 1),
    "sendmmsg": ("send", "messages", 1, 2),
}
"""The word for reports, and the arguments of the address and its length; or of a message, or of several and their number."""

_EXIT_CALLS: dict[str, tuple[Any, ...]] = {"exit_group": ("exit", "exit")}
_NO_FAILURE = (0, 127)
"""Statuses of an end that is not shown: success, and that of a child in which posix_spawn(3) could not execute a program. The
launcher waits for such a child, and must not wait for the observer."""
_MSG_NOSIGNAL = 0x4000
"""On every message of the launcher's own. Who sends datagrams has no use for it: these bring no SIGPIPE."""


def why_not_observed(mode: LauncherMode, support: Support, confinement: Confinement) -> str:
    """Why refusals are not reported under this plan; empty when they are."""
    if confinement.observe == "off":
        return "the policy asks for none"
    if confinement.mode("kernel_surface") == "off":
        return "the filter of system calls comes with kernel_surface, which is off"
    if support.seccomp_reason or support.notify:
        return support.seccomp_reason or f"no seccomp notifications ({explain_errno(support.notify)})"
    if mode == "namespace" and support.own_proc:
        return "a /proc of its own is needed to look into callers"
    return ""


def observed(rules: Iterable[Rule], mode: LauncherMode, confinement: Confinement) -> tuple[Rule, ...]:
    """`rules` with what is refused under a protection's name answered by the observer, and further calls shown to it.

    A call is either refused or let go on, never the one or the other: the observer tells by its number alone.

    Raises:
        ValueError: a call would be both.
    """
    answered = _answered_by_observer(rules)
    shown = _shown(mode, confinement)
    both = _names(answered, refused=True) & _names(shown, refused=False)
    if both:
        raise ValueError(f"the observer could not tell whether to refuse {sorted(both)}")
    return (*answered, *shown)


def _answered_by_observer(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Of one call only one errno is left to the observer: the first."""
    numbers: dict[str, int] = {}
    changed = []
    for rule in rules:
        if rule.protection and all(numbers.setdefault(call, rule.action.errno) == rule.action.errno for call in rule.calls):
            rule = attrs.evolve(rule, action=notify(rule.action.errno))
        changed.append(rule)
    return tuple(changed)


def _names(rules: Iterable[Rule], *, refused: bool) -> frozenset[str]:
    return frozenset(
        call
        for rule in rules
        if rule.action.verdict is Verdict.NOTIFY and bool(rule.action.errno) == refused
        for call in rule.calls
    )


def _shown(mode: LauncherMode, confinement: Confinement) -> tuple[Rule, ...]:
    files = _watched_files(mode, confinement)
    rules = []
    if files:
        rules += [rule for call, argument in (("open", 1), ("openat", 2)) for rule in _opens(call, argument, confinement)]
        rules.append(Rule(tuple(name for name in files if not name.startswith("open")), NOTIFY, (), "changes of files"))
    if _watches_addresses(mode, confinement):
        named = Condition(argument=4, mask=2**64 - 1, values=(0,), among=False, wide=True)
        rules.append(Rule(("connect", "bind"), NOTIFY, (), "addresses"))
        rules.append(Rule(("sendto",), NOTIFY, (named,), "addresses"))
        if mode != "plain":  # there no datagram socket can be made, or none that is refused anything
            rules.append(Rule(("sendmsg",), NOTIFY, (_without(2, _MSG_NOSIGNAL),), "addresses, in memory"))
            rules.append(Rule(("sendmmsg",), NOTIFY, (), "addresses, in memory"))
    if _watches_ends(mode, confinement):
        failure = Condition(argument=0, mask=0xFF, values=_NO_FAILURE, among=False)
        rules.append(Rule(("exit_group",), NOTIFY, (failure,), "ends of processes that failed"))
    return tuple(rules)


def _without(argument: int, bits: int) -> Condition:
    return Condition(argument=argument, mask=bits, values=(0,))


def _opens(call: str, argument: int, confinement: Confinement) -> tuple[Rule, ...]:
    no_handle = _without(argument, _HANDLE_FLAG)
    changes = Rule((call,), NOTIFY, (no_handle, Condition.any_bit(argument, _CHANGING_FLAGS)), "opens that may change something")
    if confinement.observe == "reads":
        return (changes, Rule((call,), NOTIFY, (no_handle, _without(argument, _LISTING_FLAGS)), "opens of files"))
    return (changes,)


def _watched_files(mode: LauncherMode, confinement: Confinement) -> dict[str, tuple[Any, ...]]:
    if not confinement.confines_files:
        return {}
    # Without mounts metadata is refused altogether, by the filter, or not at all.
    return _FILE_CALLS if mode == "plain" else {**_FILE_CALLS, **_METADATA_CALLS}


def _watches_addresses(mode: LauncherMode, confinement: Confinement) -> bool:
    if mode == "plain":
        return confinement.network == "ports" or (confinement.network == "full" and bool(confinement.reserved_ports))
    return confinement.confines_files or _network_kind(mode, confinement) != "open"


def _watches_ends(mode: LauncherMode, confinement: Confinement) -> bool:
    """Where ordinary sockets are refused when they are made, which some programs do without."""
    return mode == "plain" or confinement.network == "ports"


def _network_kind(mode: LauncherMode, confinement: Confinement) -> str:
    if confinement.network == "ports":
        return "ports"
    return "own" if confinement.network == "off" and mode != "plain" and confinement.mode("network") != "off" else "open"


def _told_as(call: str, protection: str) -> tuple[Any, ...]:
    """How a call that the filter refuses is told: the word, the protection, and where its path is if it has one."""
    if call not in _METADATA_CALLS:
        return call, protection
    word, _, place = _METADATA_CALLS[call]
    return word, protection, place


def _names_kind(mode: LauncherMode, confinement: Confinement, *, scoped: bool) -> str:
    if _network_kind(mode, confinement) == "own":
        return "own"
    return "scoped" if scoped and mode != "plain" else "open"


def observer_of(
    rules: Iterable[Rule],
    architecture: str,
    mode: LauncherMode,
    confinement: Confinement,
    files: dict[str, Any] | None,
    *,
    scoped: bool,
    ports_held: bool,
) -> dict[str, Any]:
    """What the observer is told, ready for JSON.

    Args:
        rules: as `observed` gives them.
        files: how to judge a path, None where the plan leaves files alone.
        scoped: Landlock keeps commands from abstract sockets outside.
        ports_held: it has rules for TCP ports.
    """
    rules = tuple(rules)
    numbers = ARCHITECTURES[architecture].numbers
    watched = {**_watched_files(mode, confinement), **_ADDRESS_CALLS, **_EXIT_CALLS}
    refused = {
        call: (rule.action.errno, *_told_as(call, rule.protection))
        for rule in reversed(rules)
        if rule.action.verdict is Verdict.NOTIFY and rule.action.errno
        for call in rule.calls
    }
    shown = _names(rules, refused=False)
    return {
        "refused": {str(numbers[call]): list(found) for call, found in refused.items() if call in numbers},
        "watched": {str(numbers[call]): list(how) for call, how in watched.items() if call in shown and call in numbers},
        "files": files,
        "network": {
            "kind": _network_kind(mode, confinement),
            "connect": list(confinement.connect_ports),
            "bind": list(confinement.bind_ports),
            "reserved": list(confinement.reserved_ports) if ports_held else [],
            "names": _names_kind(mode, confinement, scoped=scoped),
        },
        "reads": confinement.observe == "reads",
    }

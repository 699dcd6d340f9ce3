"""Who is alive, read from /proc: for naming survivors, never as a proof that nobody is left."""

from __future__ import annotations

import os
from collections.abc import Iterator

from .kernel_confine import open_unobserved
from .typed import NamedTuple

MAX_MEMBERS = 64
"""Survivors named at most; a fork bomb must not make the report long or slow."""

_PF_EXITING = 0x4  # include/linux/sched.h: it has closed its descriptors, or is about to, and runs no code of its own any more


class Member(NamedTuple):
    """One process as /proc shows it here."""

    pid: int
    name: str
    parent: int


class Stat(NamedTuple):
    """The first fields of /proc/PID/stat."""

    name: str
    state: str
    parent: int
    group: int
    exiting: bool = False


def list_members() -> list[Member]:
    """The living processes of this /proc, at most MAX_MEMBERS + 2 of them."""
    found: list[Member] = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        member = read_member(int(entry))
        if member is not None:
            found.append(member)
        if len(found) >= MAX_MEMBERS + 2:
            break
    return found


def members_below(root: int) -> list[Member]:
    """The living descendants of `root`, at most MAX_MEMBERS."""
    found: list[Member] = []
    waiting = children(root)
    while waiting and len(found) < MAX_MEMBERS:
        pid = waiting.pop()
        member = read_member(pid)
        if member is not None:
            found.append(member)
        waiting.extend(children(pid))
    return found


def pids_below(root: int) -> Iterator[int]:
    """The descendants of `root` one by one, zombies too; a tree that changes meanwhile may hide some.

    Each is given out before its own children are looked for, so whoever has seen enough stops early.
    """
    waiting = children(root)
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting.extend(children(pid))


def children(pid: int) -> list[int]:
    """The children of every thread of `pid`; empty when it is gone."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found: list[int] = []
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb", opener=open_unobserved) as file:
                found.extend(map(int, file.read().split()))
        except OSError:
            continue
    return found


def read_member(pid: int) -> Member | None:
    """The process `pid`, or None when it is gone, a zombie, or on its way out."""
    found = read_stat(pid)
    if found is None or found.state in "ZX" or found.exiting:
        return None
    return Member(pid, found.name, found.parent)


def read_stat(pid: int) -> Stat | None:
    """What /proc/PID/stat says, or None when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb", opener=open_unobserved) as file:
            return parse_stat(file.read())
    except OSError:
        return None


def split_stat(text: bytes, most: int = -1) -> tuple[bytes, list[bytes]]:
    """The name and the fields after it (field 3 of proc_pid_stat(5) is item 0), `most` of them and the rest in one.

    The name is whatever the process likes, with blanks, parentheses and newlines: it ends at the last ")".
    """
    name, _, rest = text.partition(b" (")[2].rpartition(b") ")
    return name, rest.split(maxsplit=most)


def started_at(pid: int | str) -> str:
    """When a process started, in clock ticks since the boot; with its number it names the process. Raises OSError."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return split_stat(file.read())[1][19].decode()


def parse_stat(text: bytes) -> Stat | None:
    """The first fields of a stat line; None for a process that vanished while it was read."""
    name, fields = split_stat(text, 7)
    if len(fields) < 3:
        return None
    exiting = len(fields) > 6 and bool(int(fields[6]) & _PF_EXITING)
    return Stat(name.decode("utf-8", "replace"), fields[0].decode(), int(fields[1]), int(fields[2]), exiting)

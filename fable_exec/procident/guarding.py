"""Whom nobody may signal by a record: process 1, ourselves, our ancestors, and the groups that we or they are in.

Why the line is walked and what is done where it is cut: docs/adr/0121-never-an-ancestor.md.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from fable_exec._sys import processes
from fable_exec.procident.looking import told
from fable_exec.procident.tokens import TokenKind

__all__ = ["Line", "own_line", "why_protected"]

_TRIES = 3  # a parent that ends during the walk looks like a hidden one; the next walk goes by its successor
_TOP = 1
_CLOCK_THAT_IS_NEVER_SET = TokenKind.PROC.value


class Line(NamedTuple):
    """Ourselves and our ancestors, in the numbers of the view, and the groups that they are in."""

    numbers: frozenset[int]
    groups: frozenset[int]
    is_whole: bool
    """Whether the walk came to the top; else an ancestor may be missing."""


def own_line() -> Line:
    """Walk from ourselves to the top."""
    line = _walk()
    for _ in range(_TRIES - 1):
        if line.is_whole:
            break
        line = _walk()
    return line


def _walk() -> Line:
    numbers: set[int] = set()
    groups: set[int] = set()
    number = told(processes.own_number_in_view)
    while number and number not in numbers:  # 0 is the parent of the top, and of one whose parent is outside
        numbers.add(number)
        number, group = _family(number) or (None, None)
        if group is not None:
            groups.add(group)
    return Line(frozenset(numbers), frozenset(groups), number == 0)


def _family(number: int) -> tuple[int, int] | None:
    try:
        return told(lambda: processes.family_of(number))
    except ProcessLookupError:
        return None


def why_protected(pid: int, descriptor: int | None, *, group: bool = False) -> str:
    """Why the process, or the group that it leads, is never signalled; empty when nothing speaks against it."""
    if pid <= _TOP:
        return "process 1 is everybody's"
    if pid == os.getpid():
        return "it is this process"
    if pid == os.getppid():
        return "it is the parent of this process"
    if told(lambda: processes.is_child(pid)):
        return ""  # it cannot be an ancestor, nor can one of ours be in a session that it began
    line = own_line()
    number = _number(pid, descriptor)
    if number in line.numbers:
        return "it is an ancestor of this process"
    if group and number in line.groups:
        return "this process or an ancestor of it is in the group"
    if number is None or not line.is_whole:
        return "" if _is_younger(number) else "it cannot be told whether it is an ancestor of this process"
    return ""


def _number(pid: int, descriptor: int | None) -> int | None:
    try:
        return told(lambda: processes.number_in_view(pid, descriptor))
    except ProcessLookupError:
        return None


def _is_younger(number: int | None) -> bool:
    """Whether it was born after us, by a clock that nobody sets: then it cannot be an ancestor, nor lead the session of one."""
    if number is None or processes.BIRTH_CLOCK != _CLOCK_THAT_IS_NEVER_SET:
        return False
    try:
        return processes.birth_of(number) > processes.birth_of(processes.own_number_in_view())
    except OSError:
        return False

"""A small language of rules for system calls.

A rule says what to answer to named calls, and on which conditions on their arguments. The first rule of a call that applies wins;
a call that no rule touches is allowed. What is denied is `filters`' matter; what a kernel runs is made of rules by `programs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import attrs

from fable_exec.confine import syscalls_aarch64, syscalls_x86_64
from fable_exec.confine.bpf import Symbol

__all__ = [
    "ALLOW",
    "ARCHITECTURES",
    "KILL",
    "NOTIFY",
    "Action",
    "Architecture",
    "Condition",
    "Rule",
    "deny",
    "notify",
]

_WORD = 0xFFFFFFFF

# Linux's numbers, whatever the machine that compiles a plan calls them.
EPERM, EACCES, ENOSYS, EPROTONOSUPPORT, EOPNOTSUPP, EAFNOSUPPORT = 1, 13, 38, 93, 95, 97
_ERRNO_NAMES = {
    EPERM: "EPERM",
    EACCES: "EACCES",
    ENOSYS: "ENOSYS",
    EPROTONOSUPPORT: "EPROTONOSUPPORT",
    EOPNOTSUPP: "EOPNOTSUPP",
    EAFNOSUPPORT: "EAFNOSUPPORT",
}


class Verdict(Enum):
    """The kernel's SECCOMP_RET values that this library uses."""

    KILL = 0x80000000
    ERRNO = 0x00050000
    NOTIFY = 0x7FC00000
    ALLOW = 0x7FFF0000


@attrs.frozen
class Action:
    """What happens to a call: allowed, answered with an errno, shown to an observer, or the whole process ended by SIGSYS.

    With NOTIFY the errno is what the observer is to answer, 0 to let the call go on. The kernel ignores it there (seccomp(2)).
    """

    verdict: Verdict
    errno: int = 0

    @property
    def code(self) -> int:
        """The filter's return value."""
        return self.verdict.value | self.errno

    @classmethod
    def from_code(cls, code: int) -> Action:
        """The inverse of `code`. Raises ValueError for a verdict that is not used here."""
        return cls(Verdict(code & 0xFFFF0000), code & 0xFFFF)

    def __str__(self) -> str:
        answer = _ERRNO_NAMES.get(self.errno, str(self.errno))
        if self.verdict is Verdict.NOTIFY and self.errno:
            return f"notify {answer}"
        return answer if self.verdict is Verdict.ERRNO else self.verdict.name.lower()


ALLOW = Action(Verdict.ALLOW)
KILL = Action(Verdict.KILL)
NOTIFY = Action(Verdict.NOTIFY)


def deny(number: int) -> Action:
    """The call does nothing and fails with errno `number`."""
    return Action(Verdict.ERRNO, number)


def notify(number: int) -> Action:
    """The call does nothing and fails with errno `number`, once an observer has seen it."""
    return Action(Verdict.NOTIFY, number)


@attrs.frozen(kw_only=True)
class Condition:
    """Holds when `argument & mask` is one of `values`; with `among=False` when it is none of them.

    Args:
        argument: 0 to 5.
        values: constants, or symbols that are bound where the program is loaded.
        mask: bits that count. 32 bits by default, because the kernel reads most arguments as int: the high half is then ignored,
            as the kernel ignores it, and must not make a difference.
        wide: the kernel reads all 64 bits, so both halves count.
    """

    argument: int
    mask: int = _WORD
    values: tuple[int | Symbol, ...]
    among: bool = True
    wide: bool = False

    def __attrs_post_init__(self) -> None:
        """Refuse what could never match: a filter would then allow in silence."""
        if self.argument not in range(6) or not self.values:
            raise ValueError("a condition looks at one of six arguments and needs a value")
        if self.mask >> (64 if self.wide else 32):
            raise ValueError(f"mask {self.mask:#x} goes beyond 32 bits: the condition needs wide=True")
        for value in self.values:
            if isinstance(value, int) and value & ~self.mask:
                raise ValueError(f"value {value:#x} has bits outside the mask {self.mask:#x}: it would never match")

    @classmethod
    def any_bit(cls, argument: int, bits: int) -> Condition:
        """Holds when at least one of `bits` is set."""
        return cls(argument=argument, mask=bits, values=(0,), among=False)

    def __str__(self) -> str:
        mask = "" if self.mask == (_WORD if not self.wide else 2**64 - 1) else f" & {self.mask:#x}"
        if self.values == (0,) and not self.among:
            return f"arg{self.argument}{mask}"
        words = [value.name if isinstance(value, Symbol) else hex(value) for value in self.values]
        return f"arg{self.argument}{mask} {'in' if self.among else 'not in'} {{{', '.join(words)}}}"


@attrs.frozen
class Rule:
    """`action` for these calls where all of `when` hold. A name unknown on one architecture does not exist there.

    `protection` names what a refusal belongs to, where it is worth reporting.
    """

    calls: tuple[str, ...]
    action: Action
    when: tuple[Condition, ...] = ()
    why: str = attrs.field(default="", eq=False)
    protection: str = attrs.field(default="", eq=False)


@attrs.frozen
class Architecture:
    """One machine: its audit constant and its table."""

    name: str
    audit: int
    numbers: Mapping[str, int] = attrs.field(repr=False)

    @property
    def newest(self) -> int:
        """The highest number that the table knows."""
        return max(self.numbers.values())


ARCHITECTURES: Mapping[str, Architecture] = {
    "x86_64": Architecture("x86_64", 0xC000003E, syscalls_x86_64.NUMBERS),
    "aarch64": Architecture("aarch64", 0xC00000B7, syscalls_aarch64.NUMBERS),
}

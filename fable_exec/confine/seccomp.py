"""A small rule language for system calls, compiled to a seccomp program, and the program simulated and printed.

A rule says what to answer to named calls, and on which conditions on their arguments. The first rule of a call that applies wins;
a call that no rule touches is allowed. Around the rules every program refuses what would get past them: a system call of another
architecture ends the process, x32 numbers and numbers newer than the table get ENOSYS. What is denied is `filters`' matter.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Literal

import attrs

from fable_exec.confine import bpf, syscalls_aarch64, syscalls_x86_64
from fable_exec.confine.bpf import Branch, Instruction, Item, Label, Plain, Symbol

__all__ = [
    "ALLOW",
    "ARCHITECTURES",
    "KILL",
    "NOTIFY",
    "Action",
    "Architecture",
    "Condition",
    "Program",
    "Rule",
    "assemble",
    "deny",
    "disassemble",
    "notify",
    "simulate",
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
_ALL_NAMES = frozenset(name for each in ARCHITECTURES.values() for name in each.numbers)


@attrs.frozen
class Program:
    """An assembled filter. With symbols left it cannot be run yet: `bind` them, or let the launcher's step do it."""

    architecture: Architecture
    instructions: tuple[Instruction, ...]
    symbols: tuple[tuple[int, Symbol], ...] = ()

    @property
    def observed(self) -> bool:
        """Whether it shows calls to an observer, and so needs one."""
        return any(each.code == bpf.RETURN and each.constant & 0xFFFF0000 == Verdict.NOTIFY.value for each in self.instructions)

    def bind(self, values: Mapping[str, int]) -> Program:
        """The program with every symbol replaced. Raises KeyError for a symbol that `values` lacks."""
        instructions = list(self.instructions)
        for index, symbol in self.symbols:
            constant = (values[symbol.name] >> symbol.shift) & _WORD
            instructions[index] = attrs.evolve(instructions[index], constant=constant)
        return Program(self.architecture, tuple(instructions))

    def to_wire(self) -> dict[str, Any]:
        """The argument of the launcher's step `load_filter`, ready for JSON."""
        return {
            "architecture": self.architecture.name,
            "program": base64.b64encode(bpf.pack(self.instructions)).decode("ascii"),
            "symbols": [[index, symbol.name, symbol.shift] for index, symbol in self.symbols],
            "observed": self.observed,
        }


def assemble(rules: Iterable[Rule], architecture: str) -> Program:
    """The filter that answers as `rules` say on this architecture.

    Raises:
        KeyError: no table for this architecture.
        ValueError: a rule names a call that no table has, or the filter is too long for the kernel.
    """
    machine = ARCHITECTURES[architecture]
    by_number = rules_by_number(rules, machine)
    foreign, missing, allowed = Label("foreign"), Label("missing"), Label("allowed")
    blocks: dict[tuple[Rule, ...], Label] = {group: Label(group[0].calls[0]) for group in by_number.values()}
    targets = {number: blocks[group] for number, group in by_number.items()}
    items: list[Item] = [
        Plain(bpf.LOAD, bpf.ARCHITECTURE_OFFSET),
        Branch(bpf.JUMP_EQUAL, machine.audit, false=foreign),
        Plain(bpf.LOAD, bpf.SYSTEM_CALL_OFFSET),
        *_dispatch(targets, allowed, missing, machine.newest + 1),
    ]
    for group, label in blocks.items():
        items += [label, *_block(group)]
    items += [allowed, Plain(bpf.RETURN, ALLOW.code)]
    items += [missing, Plain(bpf.RETURN, deny(ENOSYS).code)]
    items += [foreign, Plain(bpf.RETURN, KILL.code)]
    return Program(machine, *bpf.assemble(items))


def rules_by_number(rules: Iterable[Rule], machine: Architecture) -> dict[int, tuple[Rule, ...]]:
    """The rules of each call, in order. Raises ValueError for a name that no table has: a typing error would allow the call."""
    found: dict[int, tuple[Rule, ...]] = {}
    for rule in rules:
        for name in rule.calls:
            if name not in _ALL_NAMES:
                raise ValueError(f"no architecture has a system call {name!r}")
            if name in machine.numbers:
                number = machine.numbers[name]
                found[number] = (*found.get(number, ()), rule)
    return found


def _dispatch(targets: Mapping[int, Label], allowed: Label, missing: Label, end: int) -> list[Item]:
    """A binary search over the borders between ranges of numbers that go to the same place.

    Everything from `end` on is missing: numbers newer than the table, and on x86-64 all of x32, which begins at 2**30.
    """
    borders: list[tuple[int, Label]] = [(0, allowed)]
    for number in sorted(targets):
        for start, label in ((number, targets[number]), (number + 1, targets.get(number + 1, allowed))):
            if borders[-1][0] == start:
                borders[-1] = (start, label)
            elif borders[-1][1] is not label:
                borders.append((start, label))
    borders = [each for each in borders if each[0] < end] + [(end, missing)]
    return _search(borders)[1:]


def _search(borders: Sequence[tuple[int, Label]]) -> list[Item]:
    """Begins with its own label; only ever called with at least two ranges."""
    middle = len(borders) // 2
    below, above = borders[:middle], borders[middle:]
    left = _search(below) if len(below) > 1 else []
    right = _search(above) if len(above) > 1 else []
    targets = [_own_label(part) if part else half[0][1] for part, half in ((left, below), (right, above))]
    return [Label(), Branch(bpf.JUMP_AT_LEAST, above[0][0], true=targets[1], false=targets[0]), *left, *right]


def _own_label(items: list[Item]) -> Label:
    label = items[0]
    assert isinstance(label, Label)
    return label


def _block(rules: tuple[Rule, ...]) -> list[Item]:
    """The rules of one call in order; falls out allowed."""
    items: list[Item] = []
    for rule in rules:
        otherwise = Label("otherwise")
        for condition in rule.when:
            holds = Label("holds")
            items += [*_test(condition, holds, otherwise), holds]
        items.append(Plain(bpf.RETURN, rule.action.code))
        if not rule.when:
            return items
        items.append(otherwise)
    return [*items, Plain(bpf.RETURN, ALLOW.code)]


def _test(condition: Condition, holds: Label, otherwise: Label) -> list[Item]:
    inside, outside = (holds, otherwise) if condition.among else (otherwise, holds)
    if condition.wide:
        return _wide_test(condition, inside, outside)
    items = _masked_load(bpf.low_half(condition.argument), condition.mask & _WORD)
    for value in condition.values[:-1]:
        items.append(Branch(bpf.JUMP_EQUAL, value, true=inside))
    return [*items, Branch(bpf.JUMP_EQUAL, condition.values[-1], true=inside, false=outside)]


def _wide_test(condition: Condition, inside: Label, outside: Label) -> list[Item]:
    items: list[Item] = []
    for index, value in enumerate(condition.values):
        last = index == len(condition.values) - 1
        following = outside if last else Label("next value")
        low, high = _halves(value)
        items += _masked_load(bpf.low_half(condition.argument), condition.mask & _WORD)
        items.append(Branch(bpf.JUMP_EQUAL, low, false=following))
        items += _masked_load(bpf.high_half(condition.argument), condition.mask >> 32)
        items.append(Branch(bpf.JUMP_EQUAL, high, true=inside, false=following))
        items += [] if last else [following]
    return items


def _masked_load(offset: int, mask: int) -> list[Item]:
    load: list[Item] = [Plain(bpf.LOAD, offset)]
    return load if mask == _WORD else [*load, Plain(bpf.AND, mask)]


def _halves(value: int | Symbol) -> tuple[int | Symbol, int | Symbol]:
    if isinstance(value, Symbol):
        return value, Symbol(value.name, 32)
    return value & _WORD, value >> 32


def simulate(
    program: Program, architecture: Literal["x86_64", "aarch64", "i386", "arm"], number: int, args: Sequence[int] = ()
) -> Action:
    """What the kernel would do with this system call under the program.

    Raises:
        ValueError: the program still has symbols, or would not have been accepted by the kernel.
    """
    if program.symbols:
        raise ValueError(f"symbols are not bound: {sorted({symbol.name for _, symbol in program.symbols})}")
    data = bpf.seccomp_data(number, _AUDIT_NUMBERS[architecture], args)
    return Action.from_code(bpf.run(program.instructions, data))


_AUDIT_NUMBERS = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "i386": 0x40000003, "arm": 0x40000028}


def disassemble(program: Program) -> str:
    """The program as text, one instruction a line; symbols by name."""
    words = {Action.from_code(each.constant).code: str(Action.from_code(each.constant)) for each in _returns(program)}
    lines = bpf.listing(program.instructions, words)
    for index, symbol in program.symbols:
        half = ".high" if symbol.shift else ""
        lines[index] = lines[index].replace(" 0x0 ", f" <{symbol.name}{half}> ", 1)
    return "\n".join([f"; {program.architecture.name}, {len(lines)} instructions", *lines, ""])


def _returns(program: Program) -> list[Instruction]:
    return [each for each in program.instructions if each.code == bpf.RETURN]

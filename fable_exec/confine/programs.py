"""Rules of `seccomp` as a program for the kernel: compiled, bound to where it is loaded, simulated, printed.

Around the rules every program refuses what would get past them: a system call of another architecture ends the process, and
x32 numbers and numbers newer than the table get ENOSYS. Instructions are the matter of `bpf`, and jumps that of `assembling`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import attrs

from fable_exec.confine import assembling, bpf
from fable_exec.confine.assembling import Branch, Item, Label, Plain
from fable_exec.confine.bpf import Instruction, Symbol
from fable_exec.confine.seccomp import ALLOW, ARCHITECTURES, ENOSYS, KILL, Action, Architecture, Condition, Rule, Verdict, deny

__all__ = ["Program", "assemble", "disassemble", "rules_by_number", "simulate"]

_WORD = 0xFFFFFFFF
_ALL_NAMES = frozenset(name for each in ARCHITECTURES.values() for name in each.numbers)
_AUDIT_NUMBERS = {"i386": 0x40000003, "arm": 0x40000028} | {name: each.audit for name, each in ARCHITECTURES.items()}


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
    return Program(machine, *assembling.assemble(items))


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

"""Classic BPF as seccomp(2) understands it: assemble jumps by label, run a program without a kernel, print it.

Knows instructions and `struct seccomp_data`, not system calls or rules (those: `seccomp`). Sources: seccomp(2), the kernel's
`kernel/seccomp.c` (`seccomp_check_filter`) and `net/core/filter.c` (`bpf_check_classic`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import attrs

LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
JUMP = 0x05  # BPF_JMP | BPF_JA
JUMP_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
JUMP_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
RETURN = 0x06  # BPF_RET | BPF_K

MAX_INSTRUCTIONS = 4096  # BPF_MAXINSNS
_FARTHEST = 255  # a conditional jump has eight bits for its distance, forward only
_WORD = 0xFFFFFFFF

SYSTEM_CALL_OFFSET = 0
ARCHITECTURE_OFFSET = 4
_ARGUMENTS_OFFSET = 16
_DATA = struct.Struct("<iIQ6Q")
_INSTRUCTION = struct.Struct("<HBBI")
_FIELD_NAMES = {SYSTEM_CALL_OFFSET: "nr", ARCHITECTURE_OFFSET: "arch", 8: "ip.low", 12: "ip.high"}


def low_half(argument: int) -> int:
    """Offset of the low 32 bits of an argument (both machines are little-endian)."""
    return _ARGUMENTS_OFFSET + 8 * argument


def high_half(argument: int) -> int:
    """Offset of the high 32 bits of an argument."""
    return low_half(argument) + 4


@attrs.frozen
class Symbol:
    """A constant known only where the program is loaded, such as a process id; `shift` chooses its half."""

    name: str
    shift: int = 0


@attrs.frozen
class Instruction:
    """One `struct sock_filter`."""

    code: int
    true: int
    false: int
    constant: int


@attrs.frozen
class Label:
    """A place to jump to. Stands before the instruction that it names; each object is a place of its own."""

    name: str = attrs.field(default="", eq=False)
    _identity: object = attrs.field(factory=object, eq=id, repr=False)


@attrs.frozen
class Plain:
    """An instruction that does not jump."""

    code: int
    constant: int | Symbol


@attrs.frozen
class Branch:
    """A conditional jump; a target of None is the next instruction."""

    code: int
    constant: int | Symbol
    true: Label | None = None
    false: Label | None = None


Item = Label | Plain | Branch


def assemble(items: Sequence[Item]) -> tuple[tuple[Instruction, ...], tuple[tuple[int, Symbol], ...]]:
    """Instructions, and for each whose constant is a symbol its index and the symbol.

    A target farther away than a conditional jump reaches is reached through an unconditional jump placed after it.

    Raises:
        ValueError: a target stands before its jump, is missing or stands twice, or the program is too long for the kernel.
    """
    branches = [index for index, item in enumerate(items) if isinstance(item, Branch)]
    far: set[tuple[int, bool]] = set()
    while True:
        starts, places = _lay_out(items, far)
        too_far = {
            (index, side)
            for index in branches
            for side in (True, False)
            if (index, side) not in far and _distance(items, index, side, starts, places) > _FARTHEST
        }
        if not too_far:
            break
        far |= too_far
    if starts[-1] > MAX_INSTRUCTIONS:
        raise ValueError(f"a filter of {starts[-1]} instructions is longer than the kernel's {MAX_INSTRUCTIONS}")
    instructions: list[Instruction] = []
    symbols: list[tuple[int, Symbol]] = []
    for index, item in enumerate(items):
        if not isinstance(item, Label) and isinstance(item.constant, Symbol):
            symbols.append((len(instructions), item.constant))
        instructions += _encode(item, index, far, starts, places)
    return tuple(instructions), tuple(symbols)


def _size(item: Item, index: int, far: set[tuple[int, bool]]) -> int:
    if isinstance(item, Label):
        return 0
    return 1 + ((index, True) in far) + ((index, False) in far)


def _lay_out(items: Sequence[Item], far: set[tuple[int, bool]]) -> tuple[list[int], dict[Label, int]]:
    """Where each item starts (and, last, the length of the whole), and where each label is."""
    starts, places, position = [], {}, 0
    for index, item in enumerate(items):
        starts.append(position)
        if isinstance(item, Label):
            if item in places:
                raise ValueError(f"label {item.name!r} stands twice")
            places[item] = position
        position += _size(item, index, far)
    return [*starts, position], places


def _place(label: Label, places: dict[Label, int], origin: int) -> int:
    if label not in places:
        raise ValueError(f"label {label.name!r} stands nowhere")
    if places[label] < origin:
        raise ValueError(f"label {label.name!r} stands before a jump to it: filters only jump forward")
    return places[label]


def _distance(items: Sequence[Item], index: int, side: bool, starts: list[int], places: dict[Label, int]) -> int:
    """What the jump's eight bits would have to hold."""
    branch = items[index]
    assert isinstance(branch, Branch)
    label = branch.true if side else branch.false
    destination = starts[index + 1] if label is None else _place(label, places, starts[index] + 1)
    return destination - (starts[index] + 1)


def _encode(item: Item, index: int, far: set[tuple[int, bool]], starts: list[int], places: dict[Label, int]) -> list[Instruction]:
    if isinstance(item, Label):
        return []
    constant = 0 if isinstance(item.constant, Symbol) else item.constant & _WORD
    if isinstance(item, Plain):
        return [Instruction(item.code, 0, 0, constant)]
    hops: list[Instruction] = []
    distances = {}
    for side, label in ((True, item.true), (False, item.false)):
        if (index, side) in far:
            assert label is not None
            distances[side] = len(hops)
            after = starts[index] + 1 + len(hops) + 1
            hops.append(Instruction(JUMP, 0, 0, _place(label, places, after) - after))
        else:
            destination = starts[index + 1] if label is None else _place(label, places, starts[index] + 1)
            distances[side] = destination - (starts[index] + 1)
    return [Instruction(item.code, distances[True], distances[False], constant), *hops]


def pack(instructions: Iterable[Instruction]) -> bytes:
    """The bytes of an array of `struct sock_filter`."""
    return b"".join(_INSTRUCTION.pack(each.code, each.true, each.false, each.constant) for each in instructions)


def unpack(data: bytes) -> tuple[Instruction, ...]:
    """The inverse of `pack`."""
    return tuple(Instruction(*fields) for fields in _INSTRUCTION.iter_unpack(data))


def seccomp_data(number: int, architecture: int, arguments: Sequence[int]) -> bytes:
    """`struct seccomp_data` of one system call; arguments are taken modulo 2**64, missing ones are 0."""
    words = [argument & 0xFFFFFFFFFFFFFFFF for argument in arguments] + [0] * (6 - len(arguments))
    return _DATA.pack((number & _WORD) - ((number & 0x80000000) << 1), architecture, 0, *words)


def run(instructions: Sequence[Instruction], data: bytes) -> int:
    """The program's return value, computed as the kernel does.

    Raises:
        ValueError: the program does something that the kernel's checks would have refused.
    """
    accumulator = position = 0
    while position < len(instructions):
        each = instructions[position]
        position += 1
        if each.code == RETURN:
            return each.constant
        if each.code == LOAD:
            accumulator = _load(each.constant, data)
        elif each.code == AND:
            accumulator &= each.constant
        elif each.code == JUMP:
            position += each.constant
        elif each.code == JUMP_EQUAL:
            position += each.true if accumulator == each.constant else each.false
        elif each.code == JUMP_AT_LEAST:
            position += each.true if accumulator >= each.constant else each.false
        else:
            raise ValueError(f"instruction {position - 1} has an unknown code {each.code:#x}")
    raise ValueError("the program ran past its end")


def _load(offset: int, data: bytes) -> int:
    if offset % 4 or not 0 <= offset <= len(data) - 4:
        raise ValueError(f"no field at offset {offset}")
    return int.from_bytes(data[offset : offset + 4], "little")


def listing(instructions: Sequence[Instruction], names: dict[int, str]) -> list[str]:
    """One line an instruction; `names` gives words for return values."""
    return [f"{index:4}  {_line(each, index, names)}" for index, each in enumerate(instructions)]


def _line(each: Instruction, index: int, names: dict[int, str]) -> str:
    after = index + 1
    if each.code in (JUMP_EQUAL, JUMP_AT_LEAST):
        sign = "==" if each.code == JUMP_EQUAL else ">="
        return f"if {sign} {each.constant:#x} goto {after + each.true} else {after + each.false}"
    if each.code == LOAD:
        return f"load {_field(each.constant)}"
    if each.code == JUMP:
        return f"goto {after + each.constant}"
    if each.code == AND:
        return f"and {each.constant:#x}"
    return f"return {names.get(each.constant, hex(each.constant))}"


def _field(offset: int) -> str:
    if offset < _ARGUMENTS_OFFSET:
        return _FIELD_NAMES.get(offset, str(offset))
    argument, half = divmod(offset - _ARGUMENTS_OFFSET, 8)
    return f"arg{argument}.{'high' if half else 'low'}"

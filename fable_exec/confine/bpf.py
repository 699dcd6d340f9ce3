"""Classic BPF as seccomp(2) understands it: instructions and their bytes; run a program without a kernel, print it.

Knows instructions and `struct seccomp_data`, not labels (those: `assembling`), system calls or rules (those: `seccomp`). Sources:
seccomp(2), the kernel's `kernel/seccomp.c` (`seccomp_check_filter`) and `net/core/filter.c` (`bpf_check_classic`).
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

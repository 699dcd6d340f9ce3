"""The assembler of classic BPF: jumps go where their labels stand, however far; the interpreter refuses what the kernel would."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.confine import bpf
from fable_exec.confine.assembling import Branch, Item, Label, Plain, assemble
from fable_exec.confine.bpf import Symbol

ZERO = bpf.seccomp_data(0, 0, ())


def filler(count: int) -> list[Item]:
    return [Plain(bpf.LOAD, bpf.ARCHITECTURE_OFFSET)] * count


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("distance", [0, 1, 253, 254, 255, 256, 257, 600, 3000])
def test_a_conditional_jump_arrives_at_any_distance_on_either_side(distance: int, taken: bool) -> None:
    target = Label("target")
    branch = Branch(bpf.JUMP_EQUAL, 7, true=target) if taken else Branch(bpf.JUMP_EQUAL, 7, false=target)
    number = 7 if taken else 8
    items = [Plain(bpf.LOAD, 0), branch, *filler(distance), Plain(bpf.RETURN, 1), target, Plain(bpf.RETURN, 2)]
    instructions, _ = assemble(items)
    assert bpf.run(instructions, bpf.seccomp_data(number, 0, ())) == 2
    assert bpf.run(instructions, bpf.seccomp_data(15 - number, 0, ())) == 1
    assert all(each.true <= 255 and each.false <= 255 for each in instructions)


@pytest.mark.parametrize("distance", [100, 254, 255, 256, 1000])
def test_both_sides_of_a_jump_may_be_far(distance: int) -> None:
    yes, no = Label("yes"), Label("no")
    items: list[Item] = [Plain(bpf.LOAD, 0), Branch(bpf.JUMP_AT_LEAST, 5, true=yes, false=no), *filler(distance)]
    items += [no, Plain(bpf.RETURN, 1), yes, Plain(bpf.RETURN, 2)]
    instructions, _ = assemble(items)
    answers = [bpf.run(instructions, bpf.seccomp_data(number, 0, ())) for number in (4, 5, 6)]
    assert answers == [1, 2, 2]


def test_a_jump_that_grows_may_push_another_out_of_reach() -> None:
    ends = [Label(str(index)) for index in range(4)]
    items: list[Item] = [Plain(bpf.LOAD, 0)]
    items += [Branch(bpf.JUMP_EQUAL, index, true=end) for index, end in enumerate(ends)]
    items += filler(249)
    for index, end in enumerate(ends):
        items += [Plain(bpf.RETURN, 100), end, Plain(bpf.RETURN, index)]
    instructions, _ = assemble(items)
    assert [bpf.run(instructions, bpf.seccomp_data(index, 0, ())) for index in range(5)] == [0, 1, 2, 3, 100]


def test_a_label_that_is_behind_missing_or_doubled_is_refused() -> None:
    label = Label("here")
    done = Plain(bpf.RETURN, 0)
    cases: list[tuple[list[Any], str]] = [
        ([label, Branch(bpf.JUMP_EQUAL, 0, true=label), done], "before"),
        ([Branch(bpf.JUMP_EQUAL, 0, true=label), done], "nowhere"),
        ([Branch(bpf.JUMP_EQUAL, 0, true=label), label, label, done], "twice"),
    ]
    for items, complaint in cases:
        with pytest.raises(ValueError, match=complaint):
            assemble(items)


def test_a_program_longer_than_the_kernel_takes_is_refused() -> None:
    assert assemble([*filler(4095), Plain(bpf.RETURN, 0)])
    with pytest.raises(ValueError, match="4097"):
        assemble([*filler(4096), Plain(bpf.RETURN, 0)])


def test_symbols_are_listed_with_the_index_of_their_instruction() -> None:
    target = Label()
    items: list[Any] = [Plain(bpf.LOAD, 0), Branch(bpf.JUMP_EQUAL, Symbol("pid"), true=target), Plain(bpf.RETURN, 1), target]
    _, symbols = assemble([*items, Plain(bpf.RETURN, 2)])
    assert symbols == ((1, Symbol("pid")),)


@pytest.mark.parametrize("offset", [1, 64, 66])
def test_a_load_outside_the_data_or_off_a_word_is_refused(offset: int) -> None:
    with pytest.raises(ValueError, match="offset"):
        bpf.run(assemble([Plain(bpf.LOAD, offset), Plain(bpf.RETURN, 0)])[0], ZERO)


def test_a_program_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="past its end"):
        bpf.run(assemble(filler(2))[0], ZERO)


words = st.integers(0, 2**32 - 1)


@given(st.lists(st.builds(bpf.Instruction, st.integers(0, 0xFFFF), st.integers(0, 255), st.integers(0, 255), words)))
def test_packing_loses_nothing(instructions: list[bpf.Instruction]) -> None:
    packed = bpf.pack(instructions)
    assert len(packed) == 8 * len(instructions)
    assert bpf.unpack(packed) == tuple(instructions)


@given(st.integers(-(2**31), 2**32 - 1), words, st.lists(st.integers(-(2**63), 2**64 - 1), max_size=6))
def test_the_data_of_a_call_has_the_kernels_layout(number: int, architecture: int, arguments: list[int]) -> None:
    data = bpf.seccomp_data(number, architecture, arguments)
    assert len(data) == 64
    assert int.from_bytes(data[0:4], "little") == number % 2**32
    assert int.from_bytes(data[4:8], "little") == architecture
    for index, argument in enumerate(arguments):
        low = int.from_bytes(data[bpf.low_half(index) :][:4], "little")
        high = int.from_bytes(data[bpf.high_half(index) :][:4], "little")
        assert low + (high << 32) == argument % 2**64

"""Programs in classic BPF from instructions whose jumps name labels, however far away those are.

What an instruction means is `bpf`'s matter, and what a program is to answer that of `programs`.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fable_exec.confine.bpf import JUMP, MAX_INSTRUCTIONS, Instruction, Symbol

__all__ = ["Branch", "Item", "Label", "Plain", "assemble"]

_FARTHEST = 255  # a conditional jump has eight bits for its distance, forward only
_WORD = 0xFFFFFFFF


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

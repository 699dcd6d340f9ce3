"""Rules, assembled and simulated, answer what the rules say: random rule sets against a direct reading of them."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.confine import bpf, syscalls_aarch64, syscalls_x86_64
from fable_exec.confine.bpf import Symbol
from fable_exec.confine.programs import Program, assemble, disassemble, simulate
from fable_exec.confine.seccomp import ALLOW, ARCHITECTURES, KILL, Action, Condition, Rule, deny
from tests.fuzzing import A_TENTH

NAMES = sorted(set(syscalls_x86_64.NUMBERS) | set(syscalls_aarch64.NUMBERS))
WORD, LONG = 2**32 - 1, 2**64 - 1
BINDING = {"pid": 4711, "group": -4711, "key": 0x0123456789ABCDEF}


def holds(condition: Condition, arguments: Sequence[int]) -> bool:
    width = LONG if condition.wide else WORD
    seen = arguments[condition.argument] & width & condition.mask
    values = [BINDING[value.name] & width if isinstance(value, Symbol) else value for value in condition.values]
    return (seen in values) == condition.among


def read_directly(rules: Sequence[Rule], architecture: str, number: int, arguments: Sequence[int]) -> Action:
    """What the rules mean, without any program."""
    table = ARCHITECTURES[architecture].numbers
    if number % 2**32 > max(table.values()):
        return deny(errno.ENOSYS)
    names = {name for name, value in table.items() if value == number}
    for rule in rules:
        if names & set(rule.calls) and all(holds(condition, arguments) for condition in rule.when):
            return rule.action
    return ALLOW


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    wide = draw(st.booleans())
    width = LONG if wide else WORD
    mask = draw(st.one_of(st.just(width), st.sampled_from([1, 0xF, 0x7E020000, 0xFFFF]), st.integers(0, width)))
    constants = st.one_of(st.integers(0, 3), st.integers(0, width)).map(lambda value: value & mask)
    symbols: st.SearchStrategy[Any] = st.sampled_from([Symbol(name) for name in BINDING]) if mask == width else constants
    values = draw(st.lists(st.one_of(constants, symbols), min_size=1, max_size=4))
    return Condition(argument=draw(st.integers(0, 5)), mask=mask, values=tuple(values), among=draw(st.booleans()), wide=wide)


actions = st.sampled_from([ALLOW, KILL, deny(errno.EPERM), deny(errno.ENOSYS), deny(errno.EACCES)])
# Most rules about few calls, so that several meet at one call; some about any, so that programs get long jumps.
names = st.one_of(st.sampled_from(NAMES[:12]), st.sampled_from(NAMES))
rules_ = st.builds(
    Rule,
    st.lists(names, min_size=1, max_size=6).map(tuple),
    actions,
    st.lists(conditions(), max_size=3).map(tuple),
)


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[Rule], str, int, list[int]]:
    """Rules, and a call that has a good chance to meet the border of one of them."""
    rules = draw(st.lists(rules_, max_size=40))
    architecture = draw(st.sampled_from(sorted(ARCHITECTURES)))
    table = ARCHITECTURES[architecture].numbers
    named = [table[name] for rule in rules for name in rule.calls if name in table] or [0]
    near = st.builds(lambda number, step: max(0, number + step), st.sampled_from(named), st.integers(-1, 1))
    number = draw(st.one_of(near, st.integers(0, 600), st.integers(0, WORD)))
    interesting = [value & LONG for value in BINDING.values()]
    for rule in rules:
        for condition in rule.when:
            interesting += [value for value in condition.values if isinstance(value, int)] + [condition.mask]
    argument = st.one_of(
        st.sampled_from(interesting),
        st.builds(lambda value, high: (value & WORD) | (high << 32), st.sampled_from(interesting), st.integers(0, WORD)),
        st.integers(0, LONG),
    )
    return rules, architecture, number, [draw(argument) for _ in range(6)]


@pytest.mark.fuzz
@A_TENTH
@given(questions())
def test_a_program_answers_as_its_rules_say(question: tuple[list[Rule], str, int, list[int]]) -> None:
    rules, architecture, number, arguments = question
    program = assemble(rules, architecture).bind(BINDING)
    assert simulate(program, architecture, number, arguments) == read_directly(rules, architecture, number, arguments)  # type: ignore[arg-type]  # drawn from the two


def long_rules(count: int) -> list[Rule]:
    """One rule a call, each with conditions of its own: blocks that cannot be shared."""
    return [
        Rule((name,), deny(1 + index % 120), (Condition(argument=index % 6, values=(index, index + 1000)),))
        for index, name in enumerate(NAMES[:count])
    ]


@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_every_rule_of_a_program_with_many_far_jumps_is_reached(architecture: str) -> None:
    rules = long_rules(len(NAMES))
    program = assemble(rules, architecture)
    assert len(program.instructions) > 1000
    assert sum(each.code == bpf.JUMP for each in program.instructions) > 5
    table = ARCHITECTURES[architecture].numbers
    for index, rule in enumerate(rules):
        if rule.calls[0] in table:
            number = table[rule.calls[0]]
            for value, expected in ((index, rule.action), (index + 1000, rule.action), (index + 1, ALLOW)):
                assert simulate(program, architecture, number, [value] * 6) == expected  # type: ignore[arg-type]  # one of the two


def test_no_jump_can_be_off_by_one_unnoticed() -> None:
    """Once, one such jump switched off every later rule of a filter, and all ordinary tests passed."""
    program = assemble(long_rules(20), "x86_64")
    expected = answers(program)
    unnoticed = [index for index, damaged in off_by_one(program) if answers(damaged) == expected]
    assert unnoticed == []


def off_by_one(program: Program) -> Iterator[tuple[int, Program]]:
    """The program with each side of each jump one too far, one at a time; not where the next instruction is the same."""
    before = program.instructions
    for index, each in enumerate(before):
        if each.code in (bpf.JUMP_EQUAL, bpf.JUMP_AT_LEAST):
            for side in ("true", "false"):
                way = getattr(each, side)
                broken = attrs.evolve(each, **{side: way + 1})
                if before[index + 1 + way :][:1] != before[index + 2 + way :][:1]:
                    yield index, attrs.evolve(program, instructions=(*before[:index], broken, *before[index + 1 :]))


def answers(program: Program) -> list[int | str]:
    """What a program answers at each border of `long_rules(20)`."""
    found: list[int | str] = []
    cases = [(ARCHITECTURES["x86_64"].numbers.get(name, 0), index) for index, name in enumerate(NAMES[:20])]
    for number, index in [*cases, (471, 0), (472, 0)]:
        for call in (number - 1, number, number + 1):
            for value in (index, index + 1000, index + 1):
                for architecture in (0xC000003E, 0x40000003):
                    try:
                        found.append(bpf.run(program.instructions, bpf.seccomp_data(call, architecture, [value] * 6)))
                    except ValueError as error:
                        found.append(str(error))
    return found


ALLOWING = assemble([], "x86_64")


@pytest.mark.parametrize("architecture", ["i386", "arm", "aarch64"])
@pytest.mark.parametrize("number", [0, 1, 20, 2**31, 2**32 - 1])
def test_a_call_of_another_architecture_ends_the_process(architecture: str, number: int) -> None:
    assert simulate(ALLOWING, architecture, number) == KILL  # type: ignore[arg-type]  # the parameters are the words


@pytest.mark.parametrize("number", [0x40000000, 0x40000000 + 59, 0x40000208, 472, 512, 547, 2**31, -1])
def test_x32_and_calls_newer_than_the_table_do_not_exist(number: int) -> None:
    assert simulate(ALLOWING, "x86_64", number) == deny(errno.ENOSYS)


def test_a_name_that_no_table_has_is_refused_since_it_would_allow_the_call() -> None:
    with pytest.raises(ValueError, match="ptrase"):
        assemble([Rule(("ptrase",), deny(1))], "x86_64")


def test_a_call_that_one_architecture_lacks_is_no_error_there() -> None:
    rules = [Rule(("iopl",), deny(1))]
    assert simulate(assemble(rules, "x86_64"), "x86_64", syscalls_x86_64.NUMBERS["iopl"]) == deny(1)
    assert len(assemble(rules, "aarch64").instructions) == len(assemble([], "aarch64").instructions)


def test_an_unknown_architecture_has_no_filter() -> None:
    with pytest.raises(KeyError):
        assemble([], "riscv64")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"values": ()}, "needs a value"),
        ({"values": (1,), "mask": 2**32}, "wide"),
        ({"values": (0x10,), "mask": 0xF}, "never match"),
        ({"values": (2**32,)}, "never match"),
    ],
)
def test_a_condition_that_could_not_work_is_refused(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Condition(argument=0, **fields)  # type: ignore[arg-type]  # wrong on purpose


def test_a_program_with_open_symbols_neither_runs_nor_binds_halfway() -> None:
    rules = [Rule(("kill",), deny(1), (Condition(argument=0, values=(Symbol("pid"), Symbol("group"))),))]
    program = assemble(rules, "x86_64")
    with pytest.raises(ValueError, match=r"group.*pid"):
        simulate(program, "x86_64", 62)
    with pytest.raises(KeyError):
        program.bind({"pid": 1})


def test_a_program_travels_as_json_with_its_symbols() -> None:
    rules = [Rule(("setns",), ALLOW, (Condition(argument=4, values=(Symbol("key"),), mask=LONG, wide=True),))]
    program = assemble(rules, "aarch64")
    wire = json.loads(json.dumps(program.to_wire()))
    assert wire["architecture"] == "aarch64"
    assert [name for _, name, _ in wire["symbols"]] == ["key", "key"]
    assert sorted(shift for _, _, shift in wire["symbols"]) == [0, 32]


def test_a_listing_names_symbols_and_answers() -> None:
    rules = [Rule(("setns",), deny(errno.EPERM), (Condition(argument=4, values=(Symbol("key"),), mask=LONG, wide=True),))]
    text = disassemble(assemble(rules, "x86_64"))
    for word in ("load arch", "<key>", "<key.high>", "return EPERM", "return ENOSYS", "return kill", "return allow"):
        assert word in text


def header(*candidates: str) -> str:
    for candidate in candidates:
        if Path(candidate).exists():
            return Path(candidate).read_text()
    pytest.skip("the kernel's headers are not installed")


def defined_numbers(text: str) -> dict[str, int]:
    """`#define __NR_x 5`, also where it goes through another name (generic table, 64-bit branch first)."""
    found: dict[str, str] = {}
    for name, value in re.findall(r"#define (__NR(?:3264)?_\w+)\s+(\w+)", text):
        found.setdefault(name, value)
    numbers = {}
    for name, value in found.items():
        value = found.get(value, value)
        if name.startswith("__NR_") and value.isdigit():
            numbers[name.removeprefix("__NR_")] = int(value)
    return numbers


@pytest.mark.parametrize(
    ("table", "headers"),
    [
        (
            syscalls_x86_64.NUMBERS,
            ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"),
        ),
        (syscalls_aarch64.NUMBERS, ("/usr/include/asm-generic/unistd.h",)),
    ],
    ids=["x86_64", "aarch64"],
)
def test_the_tables_say_what_the_machines_headers_say(table: dict[str, int], headers: tuple[str, ...]) -> None:
    known = defined_numbers(header(*headers))
    common = table.keys() & known.keys()
    assert len(common) > 250
    assert {name: table[name] for name in common} == {name: known[name] for name in common}


@pytest.mark.parametrize("table", [syscalls_x86_64.NUMBERS, syscalls_aarch64.NUMBERS], ids=["x86_64", "aarch64"])
def test_no_number_has_two_names(table: dict[str, int]) -> None:
    assert len(set(table.values())) == len(table)


def test_calls_since_424_have_one_number_on_both() -> None:
    new = {name: number for name, number in syscalls_x86_64.NUMBERS.items() if number >= 424}
    assert {name: syscalls_aarch64.NUMBERS.get(name) for name in new} == new

"""The table of argv: nothing dangerous is accepted, nothing ordinary is refused, and small changes to either keep it so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.argrules import ArgumentRules
from fable_exec.argrules.tables import Style, Table, Takes

CASES: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parents[1] / "data" / "argv.jsonl").read_text("utf-8").splitlines()
]
DANGEROUS = [case for case in CASES if case["expect"] == "deny"]
ORDINARY = [case for case in CASES if case["expect"] == "allow"]
RULES = ArgumentRules.builtin()


def test_the_table_is_large_enough_to_mean_something() -> None:
    assert len(DANGEROUS) >= 220
    assert len(ORDINARY) >= 90
    assert len({tuple(case["argv"]) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("unknown_tools", ["allow", "deny"])
def test_nothing_dangerous_is_accepted(unknown_tools: Any) -> None:
    accepted = [case for case in DANGEROUS if RULES.judge(case["argv"], unknown_tools=unknown_tools).allowed]
    assert accepted == []


def test_everything_ordinary_is_accepted() -> None:
    refused = [(case["argv"], verdict.reason) for case in ORDINARY if not (verdict := RULES.judge(case["argv"])).allowed]
    assert refused == []


def test_what_is_marked_read_only_is_what_cannot_write() -> None:
    marked = [case for case in ORDINARY if "read_only" in case]
    assert len(marked) >= 150
    wrong = [case["argv"] for case in marked if RULES.judge(case["argv"]).read_only != case["read_only"]]
    assert wrong == []


def test_a_refusal_names_the_rule_and_what_to_do_and_is_bounded_ascii() -> None:
    for case in DANGEROUS:
        verdict = RULES.judge(case["argv"])
        assert not verdict.read_only and verdict.rule and len(verdict.reason) > 20
        assert len(verdict.reason) < 5000 and verdict.reason.isprintable(), verdict.reason


@pytest.mark.parametrize("case", ORDINARY, ids=lambda case: " ".join(case["argv"])[:60].encode("unicode_escape").decode())
def test_an_unknown_option_makes_an_accepted_argv_refused(case: dict[str, Any]) -> None:
    tool, *rest = case["argv"]
    for unknown in ("--zz-unknown", "--zz-unknown=1"):
        assert not RULES.judge([tool, unknown, *rest]).allowed


def _tables(path: tuple[str, ...], table: Table) -> Iterator[tuple[tuple[str, ...], Table]]:
    yield path, table
    for name, below in table.commands.items():
        yield from _tables((*path, name), below)


ALL_TABLES = [found for name, tables in RULES.tables.items() for table in tables for found in _tables((name,), table)]


def test_every_refused_option_is_refused_however_it_is_written() -> None:
    tried = 0
    for path, table in ALL_TABLES:
        for spelling, option in table.options.items():
            if option.refused:
                for written in (spelling, spelling + "=x", spelling + "x"):
                    tried += 1
                    if written in table.options and not table.options[written].refused:
                        continue  # another option that begins alike
                    assert not RULES.judge([*path, written, "x"]).allowed, (path, written)
    assert tried > 1500


def test_every_abbreviation_of_a_refused_option_is_refused() -> None:
    for path, table in ALL_TABLES:
        for spelling, option in table.options.items():
            if option.refused and spelling.startswith("--"):
                for length in range(3, len(spelling)):
                    short = spelling[:length]
                    if short not in table.options:
                        assert not RULES.judge([*path, short, "x"]).allowed, (path, short)
                        assert not RULES.judge([*path, short + "=x", "y"]).allowed, (path, short)


def test_every_bundle_with_a_refused_letter_is_refused() -> None:
    for path, table in ALL_TABLES:
        if table.style in (Style.GNU, Style.POSIX):
            letters = [name[1] for name, option in table.options.items() if len(name) == 2 and not option.refused]
            flags = [letter for letter in letters if table.options["-" + letter].takes is Takes.NOTHING]
            for spelling, option in table.options.items():
                if option.refused and len(spelling) == 2:
                    for flag in flags:
                        assert not RULES.judge([*path, f"-{flag}{spelling[1]}", "x"]).allowed, (path, flag, spelling)


def test_an_abbreviation_is_the_option_it_abbreviates() -> None:
    assert RULES.judge(["sort", "--rev", "a"]).allowed
    assert RULES.judge(["tar", "--extr", "--direc", "build", "-f", "a.tar"]).allowed
    assert not RULES.judge(["tar", "--extr", "--direc", "/etc", "-f", "a.tar"]).allowed
    assert not RULES.judge(["sort", "--r", "a"]).allowed  # could be several


WORDS = st.one_of(
    st.text(max_size=12),
    st.sampled_from([word for case in CASES for word in case["argv"]]),
    st.sampled_from(sorted(RULES.tools)),
    st.sampled_from(["--", "-", "+", "{}", ";", "-exec", "-c", "-e", "--x=", "=", "\ud800", "\0", "-\u2014", "@x", "[", "\\"]),
)


@pytest.mark.fuzz
@given(st.lists(WORDS, max_size=10), st.sampled_from(["allow", "deny"]))
def test_any_argv_gets_a_verdict(argv: list[str], unknown_tools: Any) -> None:
    verdict = RULES.judge(argv, unknown_tools=unknown_tools, workspace="/w", cwd=("a",))
    assert verdict == RULES.judge(argv, unknown_tools=unknown_tools, workspace="/w", cwd=("a",))
    assert verdict.allowed == (verdict.reason == "")
    assert all(inner.allowed for inner in verdict.inner) or not verdict.allowed


@pytest.mark.fuzz
@given(st.sampled_from(DANGEROUS), st.data())
def test_a_wrapper_never_launders_a_dangerous_argv(case: dict[str, Any], data: st.DataObject) -> None:
    wrapper = data.draw(
        st.sampled_from([["env"], ["timeout", "5"], ["nice"], ["nohup"], ["xargs"], ["time"], ["stdbuf", "-o0"], ["busybox"]])
    )
    assert not RULES.judge([*wrapper, *case["argv"]]).allowed or case["argv"][0] in ("", "--", "-c")


@pytest.mark.fuzz
@given(st.sampled_from(ORDINARY), st.text(min_size=1, max_size=6), st.integers(0, 10))
def test_a_nul_is_refused_wherever_it_stands(case: dict[str, Any], text: str, place: int) -> None:
    argv = list(case["argv"])
    argv.insert(place % len(argv) + 1, text + "\0")
    assert not RULES.judge(argv).allowed

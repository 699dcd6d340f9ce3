"""The page of processes says what the code says."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import attrs
import pytest

from fable_exec import procident
from fable_exec.procident import GROUP_SIGNAL_REFUSED, BirthToken, Comparison, ProcessHandle, ProcessIdentity, TokenKind

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "processes.md").read_text()
BOOT = "cdda642c-2827-49cf-ba80-5aa5d2e61366"
TOKENS = {
    "proc:BOOT_ID:TICKS": BirthToken(TokenKind.PROC, "7", BOOT),
    "proc::TICKS": BirthToken(TokenKind.PROC, "7"),
    "darwin:SEC:USEC": BirthToken(TokenKind.DARWIN, "7:8"),
    "ps:LSTART": BirthToken(TokenKind.PS, "Mon Nov 30 05:00:00 2026"),
}


def rows_of(first: str) -> list[list[str]]:
    """The cells of the table whose first column has that heading."""
    _, _, rest = PAGE.partition(f"\n| {first} | ")
    table = rest.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in table]


def named_in(first: str) -> set[str]:
    return {name for cell, *_ in rows_of(first) for name in re.findall(r"`(?:ProcessHandle\.)?([A-Za-z_]+)", cell)}


def test_the_page_lists_every_name_and_every_call() -> None:
    assert named_in("name") == {*procident.__all__} - {"ProcessHandle", "ProcessIdentity", "Comparison"} | {"of", "reopen"}
    assert all(f"`{name}" in PAGE for name in procident.__all__)
    public = {name for name in vars(ProcessHandle) if not name.startswith("_")} - {"of", "reopen", "close"}
    assert named_in("call") == public


def test_the_page_lists_the_parameters_of_the_call_that_has_more_than_one() -> None:
    written = "send_signal_to_group(number, recorded_pgid=, recorded_sid=)"
    assert f"`{written}`" in PAGE
    assert list(inspect.signature(ProcessHandle.send_signal_to_group).parameters)[1:] == re.findall(
        r"[a-z]+_?[a-z]+(?=[,=])", written
    )


def test_the_page_lists_every_member_that_is_written_down() -> None:
    identity = ProcessIdentity(7, TOKENS["proc:BOOT_ID:TICKS"], 9, 10, BOOT, 11)
    assert [cell.strip("`") for cell, *_ in rows_of("member")] == list(identity.to_members())
    assert len(identity.to_members()) == len(attrs.fields(ProcessIdentity))


@pytest.mark.parametrize("row", rows_of("token"), ids=lambda row: row[0])
def test_the_page_says_of_every_token_what_it_authorises(row: list[str]) -> None:
    token = TOKENS[row[0].strip("`")]
    assert token.may_authorise == (row[2] == "yes")
    assert str(token).split(":")[0] == row[0].strip("`").split(":")[0]


def test_the_page_lists_every_kind_of_token_and_every_answer() -> None:
    assert [row[0].strip("`") for row in rows_of("token")] == list(TOKENS)
    assert {token.kind for token in TOKENS.values()} == set(TokenKind)
    assert [row[0].strip("`") for row in rows_of("answer")] == list(Comparison.__members__)


def test_the_page_has_the_text_of_a_refusal() -> None:
    assert f'"{GROUP_SIGNAL_REFUSED}"' in PAGE

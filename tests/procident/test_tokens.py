"""Birth tokens have one text each, and say themselves whether they may authorise a signal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.procident import BirthToken, TokenKind
from tests.procident.identities import BOOT_IDS, tokens

BOOT = "cdda642c-2827-49cf-ba80-5aa5d2e61366"


@pytest.mark.parametrize(
    ("text", "kind", "boot_id", "moment", "may_authorise"),
    [
        (f"proc:{BOOT}:2507422", TokenKind.PROC, BOOT, "2507422", True),
        ("proc::2507422", TokenKind.PROC, "", "2507422", False),
        ("proc::0", TokenKind.PROC, "", "0", False),
        ("darwin:1796009305:4711", TokenKind.DARWIN, "", "1796009305:4711", True),
        ("darwin:1796009305:0", TokenKind.DARWIN, "", "1796009305:0", True),
        ("ps:Mon Nov 30 03:28:25 2026", TokenKind.PS, "", "Mon Nov 30 03:28:25 2026", False),
        ("ps:Tue Dec  1 03:28:25 2026", TokenKind.PS, "", "Tue Dec  1 03:28:25 2026", False),
    ],
)
def test_a_token_is_read_and_written(text: str, kind: TokenKind, boot_id: str, moment: str, may_authorise: bool) -> None:
    token = BirthToken.parse(text)
    assert (token.kind, token.boot_id, token.moment, token.may_authorise) == (kind, boot_id, moment, may_authorise)
    assert str(token) == text
    assert BirthToken(kind, moment, boot_id) == token


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "proc",
        "proc:",
        "proc:1",
        "proc::",
        "proc::-1",
        "proc::01",
        "proc:: 1",
        "proc::1 ",
        "proc::1\n",
        "proc::\u0661",  # a digit, but not of ASCII
        "proc::1:2",
        "proc::" + "1" * 21,
        f"proc:{BOOT.upper()}:1",
        f"proc:{BOOT[:-1]}:1",
        f"proc:{BOOT}\n:1",
        f"proc: {BOOT}:1",
        f"proc:{BOOT}:",
        f"proc:{BOOT}1",
        "PROC::1",
        "darwin:1",
        "darwin:1:",
        "darwin::1",
        "darwin:1:1000000",
        "darwin:1:00",
        "darwin:1:2:3",
        f"darwin:{BOOT}:1",
        "ps:",
        "ps: Mon",
        "ps:Mon ",
        "ps:Mon\n",
        "ps:Lun. 30 d\u00e9c.",
        "ps:" + "x" * 65,
        "windows:1",
        "1",
    ],
)
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a birth token|not the name of a boot"):
        BirthToken.parse(text)


def test_a_boot_belongs_to_ticks_alone() -> None:
    with pytest.raises(ValueError, match="not the name of a boot"):
        BirthToken(TokenKind.DARWIN, "1:2", BOOT)
    with pytest.raises(ValueError, match="not the name of a boot"):
        BirthToken(TokenKind.PS, "Mon", BOOT)


def test_the_complaint_is_bounded() -> None:
    with pytest.raises(ValueError) as caught:
        BirthToken.parse("proc:" + "x" * 100_000)
    assert len(str(caught.value)) < 200


@pytest.mark.fuzz
@given(tokens(BOOT_IDS))
def test_every_token_reads_back_as_it_was_written(token: BirthToken) -> None:
    assert BirthToken.parse(str(token)) == token


_PIECES = st.sampled_from(["proc", "darwin", "ps", ":", "::", "0", "1", "00", BOOT, " ", "\n", "Mon Nov 30 03:28:25 2026", "-"])


@pytest.mark.fuzz
@given(st.one_of(st.text(), st.lists(_PIECES, max_size=8).map("".join)))
def test_no_text_but_that_of_a_token_is_one(text: str) -> None:
    try:
        token = BirthToken.parse(text)
    except ValueError:
        return
    assert str(token) == text
    assert token.may_authorise == (text.startswith("darwin:") or (text.startswith("proc:") and not text.startswith("proc::")))

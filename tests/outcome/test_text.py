"""Bytes to text: nothing raises, no character is split, nothing unseen reaches a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.outcome import Captured, TextDecoder, decode_text, display_text, whole_characters
from tests.fuzzing import A_TENTH


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"plain\n", "plain\n"),
        ("naïve 漢 😀".encode(), "naïve 漢 😀"),
        (b"a\xffb", "a�b"),
        (b"\xe6\xbc", "�"),
        (b"\xed\xa0\x80", "���"),
        (b"\xf0\x9f\x98", "�"),
    ],
)
def test_undecodable_bytes_become_the_replacement_character(data: bytes, text: str) -> None:
    assert decode_text(data) == decode_text(bytearray(data)) == decode_text(memoryview(data)) == text


@pytest.mark.parametrize("character", ["é", "漢", "😀"])
def test_a_character_split_over_two_reads_stays_whole(character: str) -> None:
    data = f"<{character}>".encode()
    for cut in range(len(data) + 1):
        decoder = TextDecoder()
        assert decoder.feed(data[:cut]) + decoder.feed(data[cut:], final=True) == f"<{character}>"


@pytest.mark.fuzz
@A_TENTH
@given(st.lists(st.binary(max_size=8)))
def test_decoding_piece_by_piece_equals_decoding_at_once(pieces: list[bytes]) -> None:
    decoder = TextDecoder()
    assert "".join(map(decoder.feed, pieces)) + decoder.feed(b"", final=True) == decode_text(b"".join(pieces))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b]52;c;AAAA\x07", "\\x1b]52;c;AAAA\\x07"),
        ("harmless\rrm -rf", "harmless\\x0drm -rf"),
        ("\x00\x7f\x9b", "\\x00\\x7f\\x9b"),
        ("a\u202eb\u2066c\u200fd", "a\\u202eb\\u2066c\\u200fd"),
        ("a\u200bb\ufeffc\u2060", "a\\u200bb\\ufeffc\\u2060"),
        ("\u2028\u2029\u00ad", "\\u2028\\u2029\\xad"),
        ("\U000e0041", "\\U000e0041"),
        ("\udcff", "\\udcff"),
        ("漢字 é 😀 \\x1b", "漢字 é 😀 \\x1b"),
    ],
)
def test_what_cannot_be_seen_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert display_text(text) == shown


def test_every_control_character_but_newline_and_tab_is_escaped() -> None:
    controls = [chr(n) for n in (*range(0x20), 0x7F, *range(0x80, 0xA0))]
    assert [c for c in controls if display_text(c) == c] == ["\t", "\n"]


@pytest.mark.fuzz
@given(st.text(st.characters()))
def test_display_text_can_always_be_printed_and_is_stable(text: str) -> None:
    shown = display_text(text)
    shown.encode()
    assert display_text(shown) == shown


@pytest.mark.fuzz
@given(st.text(), st.integers(0, 40))
def test_whole_characters_never_splits_valid_text(text: str, end: int) -> None:
    data = text.encode()
    end = min(end, len(data))
    boundary = whole_characters(data, end)
    data[:boundary].decode()
    assert end - 3 <= boundary <= end


def test_a_cut_stream_is_shown_up_to_its_last_whole_character() -> None:
    data = "ab漢".encode()
    for kept, text in ((5, "ab漢"), (4, "ab"), (3, "ab"), (2, "ab"), (1, "a"), (0, "")):
        captured = Captured(head=data[:kept], total_bytes=5)
        assert (captured.raw, captured.text()) == (data[:kept], text)


def test_an_unfinished_character_of_a_whole_stream_is_a_fault_that_shows() -> None:
    assert Captured(head=b"ab\xe6\xbc").text() == "ab�"
    assert not Captured(head=b"ab\xe6\xbc").is_utf8


def test_head_and_tail_stand_around_a_line_that_counts_what_is_not_shown() -> None:
    captured = Captured(head=b"a" * 100, tail=b"b" * 100, total_bytes=1000)
    text = captured.text()
    head, mark, tail = text.split("\n")
    assert set(head) == {"a"} and set(tail) == {"b"}
    assert mark == f"[{1000 - len(head) - len(tail)} bytes omitted]"
    assert captured.omitted_bytes == 800 and captured.raw == b"a" * 100 + b"b" * 100


def test_a_tail_begins_at_a_character() -> None:
    euro = "€".encode()
    captured = Captured(head=b"", tail=euro[1:] + b"end", total_bytes=100)
    assert captured.text() == "end"
    assert captured.is_utf8


@pytest.mark.fuzz
@given(st.text(min_size=1), st.integers(1, 200), st.integers(0, 200))
def test_text_cut_out_of_valid_utf8_is_valid_and_never_longer_than_the_kept_bytes(text: str, head: int, tail: int) -> None:
    data = (text * 8).encode()
    kept_head, kept_tail = data[:head], data[head:][-tail:] if tail else b""
    captured = Captured(head=kept_head, tail=kept_tail, total_bytes=len(data))
    if captured.omitted_bytes:
        assert len(captured.text().encode()) <= len(captured.raw)
    assert captured.is_utf8
    assert ("�" in captured.text()) <= ("�" in text)


def test_display_of_a_captured_stream_escapes_and_its_text_does_not() -> None:
    captured = Captured(head=b"\x1b[31mred")
    assert captured.text() == "\x1b[31mred"
    assert captured.display() == "\\x1b[31mred"

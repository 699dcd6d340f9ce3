"""One line: bounded, printable ASCII, chained, and without what must not be written down."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.audit.lines import FIRST_PREVIOUS, MAX_LINE_BYTES, AuditHead, BadLine, encode_line, parse_line, safe_facts
from tests.fuzzing import A_TENTH

TIME = "2026-01-02T03:04:05.678901Z"


def test_a_line_has_its_documented_form() -> None:
    raw, head = encode_line(AuditHead(), TIME, "decision", {"allowed": True})
    body = f'{{"sequence":1,"time":"{TIME}","kind":"decision","facts":{{"allowed":true}},"previous":"{FIRST_PREVIOUS}"'
    digest = hashlib.sha256((body + "}").encode()).hexdigest()
    assert raw == f'{body},"digest":"{digest}"}}\n'.encode()
    assert head == AuditHead(1, digest)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3000) | st.binary(max_size=100),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=100), inner, max_size=5),
    max_leaves=30,
)


@pytest.mark.fuzz
@A_TENTH
@given(st.dictionaries(st.text(max_size=100), VALUES, max_size=80), st.integers(0, 2**40))
def test_whatever_the_facts_are_the_line_is_bounded_printable_and_read_back(facts: dict[str, Any], number: int) -> None:
    raw, head = encode_line(AuditHead(number, "a" * 64), TIME, "x", facts)
    assert len(raw) <= MAX_LINE_BYTES
    assert raw.endswith(b"\n")
    assert raw[:-1].decode("ascii").isprintable()
    line = parse_line(raw[:-1])
    assert (line.head, line.previous, line.time, line.kind) == (head, "a" * 64, TIME, "x")


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else "end"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, None),
        (3, 3),
        (2**60, "an integer beyond 2**53"),
        (10**5000, "an integer beyond 2**53"),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ("é\x1b\x7f\0", "é\x1b\x7f\0"),
        ("\udc80", "\\udc80"),
        ("x" * 1025, "x" * 1024 + "… 1 more characters"),
        (b"secret bytes", "12 bytes"),
        (Path("/a"), "/a"),
        ({3: 4, 10**5000: 5}, {"3": 4, "an integer beyond 2**53": 5}),
        (("a", "b"), ["a", "b"]),
        (list(range(70)), [*range(64), "… 6 more"]),
        (nested(6), [[[["<list>"]]]]),
        (object(), "<object>"),
        (ValueError("token abc"), "<ValueError>"),
    ],
    ids=range(18),
)
def test_a_fact_is_cleaned_and_cut(value: Any, written: Any) -> None:
    assert safe_facts({"fact": value}) == {"fact": written}


@pytest.mark.parametrize("name", ["token", "Token", "content", "stdin", "env", "password", "data", "write_token"])
def test_secrets_and_content_are_withheld_by_name_at_any_depth(name: str) -> None:
    raw, _ = encode_line(AuditHead(), TIME, "x", {name: "s3cret", "deep": [{name: ["s3cret"]}]})
    assert b"s3cret" not in raw
    assert b"<withheld>" in raw


def test_a_line_that_would_be_too_long_is_cut_and_says_so() -> None:
    raw, _ = encode_line(AuditHead(), TIME, "x", {"command": ["\x01" * 1000] * 60, "allowed": True})
    facts = json.loads(raw)["facts"]
    assert facts["allowed"] is True
    assert facts["cut_from_bytes"] > MAX_LINE_BYTES
    assert len(facts["command"][0]) < 130


@pytest.mark.parametrize("kind", ["", "Kind", "a b", 'x"', "é", "x" * 65, "3x", "a\n"])
def test_a_kind_is_a_short_word(kind: str) -> None:
    with pytest.raises(ValueError, match="kind of an audit line"):
        encode_line(AuditHead(), TIME, kind, {})


def test_no_edit_of_one_byte_survives() -> None:
    raw = encode_line(AuditHead(), TIME, "decision", {"command": ["git", "status"]})[0][:-1]
    for place in range(len(raw)):
        for byte in {raw[place] ^ 1, raw[place] ^ 32, 0, 10, 255} - {raw[place]}:
            with pytest.raises(BadLine):
                parse_line(raw[:place] + bytes([byte]) + raw[place + 1 :])
        with pytest.raises(BadLine):
            parse_line(raw[:place] + raw[place + 1 :])
        with pytest.raises(BadLine):
            parse_line(raw[:place] + b" " + raw[place:])


def sealed(body: str) -> bytes:
    """A line whose digest fits, as a forger could make it."""
    return f'{body},"digest":"{hashlib.sha256((body + "}").encode()).hexdigest()}"}}'.encode()


@pytest.mark.parametrize(
    "body",
    [
        "{",
        '{"sequence":1',
        f'{{"sequence":0,"time":"t","kind":"k","facts":{{}},"previous":"{FIRST_PREVIOUS}"',
        f'{{"sequence":true,"time":"t","kind":"k","facts":{{}},"previous":"{FIRST_PREVIOUS}"',
        f'{{"sequence":1,"time":"t","kind":"k","facts":[],"previous":"{FIRST_PREVIOUS}"',
        f'{{"sequence":1,"time":"t","kind":"k","facts":{{}},"extra":1,"previous":"{FIRST_PREVIOUS}"',
        '{"sequence":1,"time":"t","kind":"k","facts":{},"previous":"x"',
        "[" * 8000,
    ],
    ids=range(8),
)
def test_a_line_of_another_form_is_refused_although_its_digest_fits(body: str) -> None:
    with pytest.raises(BadLine):
        parse_line(sealed(body))

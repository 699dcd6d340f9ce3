"""One line of JSON: what the standard library reads, we read the same, but within bounds."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.errors import InvalidJson, InvalidRequest
from fable_exec.protocol.json_text import MAX_DEPTH, MAX_VALUES, parse_json
from tests.bounds import BUSY_SECONDS

NOT_JSON: list[bytes] = [
    b"",
    b"{",
    b"{]",
    b"nul",
    b"{'a':1}",
    b'{"a":1,}',
    b'{"a":1} x',
    b'{"a":1}{"b":2}',
    b'{"a" 1}',
    b'"\x01"',
    b'"tab\there"',
    b'"\\u12"',
    b'"\\x"',
    b"01",
    b"+1",
    b"1.",
    b".5",
    b"NaN",
    b"Infinity",
    b'{"a":-Infinity}',
    b"[NaN]",
    b"\xff",
    b'"\xed\xa0\x80"',
    b'"\xc0\xaf"',
    b"\xef\xbb\xbf{}",
    '{"action":"probe"}'.encode("utf-16"),
    '{"action":"probe"}'.encode("utf-32"),
    "[1٢]".encode(),
    "[1.٢]".encode(),
    b"// comment\n{}",
]

BEYOND_BOUNDS: list[tuple[bytes, str]] = [
    (b'{"a":1,"a":1}', "twice"),
    (b'{"x":{"a":1,"b":2,"a":3}}', "twice"),
    (b'{"a":1,"\\u0061":1}', "twice"),
    (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "levels deep"),
    (b"[" * 1_000_000, "levels deep"),
    (b'{"a":' * 100_000, "levels deep"),
    (b'["' + b"[" * 1000 + b'",' + b"[" * 1000, "levels deep"),
    (b"1" * 21, "digits"),
    (b"-" + b"1" * 5000, "digits"),
    (b"[" + b"9" * 900_000 + b"]", "digits"),
    (b"1e400", "too large"),
    (b"-1e999999999", "too large"),
    (b"1." + b"1" * 100_000, "too long"),
    (b"[" + b"1," * MAX_VALUES + b"1]", "values"),
]


@pytest.mark.parametrize("line", NOT_JSON, ids=repr)
def test_what_is_not_json_is_refused_as_that(line: bytes) -> None:
    with pytest.raises(InvalidJson) as caught:
        parse_json(line)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(("line", "reason"), BEYOND_BOUNDS, ids=[repr(case[0][:30]) for case in BEYOND_BOUNDS])
def test_json_beyond_the_bounds_is_refused_at_once(line: bytes, reason: str) -> None:
    started = time.process_time()
    with pytest.raises(InvalidRequest, match=reason):
        parse_json(line)
    assert time.process_time() - started < BUSY_SECONDS


def test_deep_nesting_is_refused_whatever_recursion_the_embedder_allows() -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000_000)
    try:
        with pytest.raises(InvalidRequest, match="levels deep"):
            parse_json(b"[" * 10_000_000)
    finally:
        sys.setrecursionlimit(before)


def test_brackets_in_a_string_are_no_levels_and_the_deepest_allowed_is_read() -> None:
    assert parse_json(json.dumps("[{" * 100_000).encode()) == "[{" * 100_000
    deepest = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert parse_json(deepest) == json.loads(deepest)
    side_by_side = b"[" + b"[]," * 1000 + b"{}]"
    assert parse_json(side_by_side) == json.loads(side_by_side)


@pytest.mark.parametrize("data", [bytes, bytearray, memoryview])
def test_any_bytes_like_line_is_read(data: Any) -> None:
    assert parse_json(data(b'{"a": [1, 2.5, null, true, "\\ud83d\\ude00"]}')) == {"a": [1, 2.5, None, True, "😀"]}


json_documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**19), 10**19) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=10,
)


@pytest.mark.fuzz
@given(json_documents, st.sampled_from([None, 1]), st.booleans())
def test_every_document_within_bounds_reads_as_the_standard_library_reads_it(
    value: Any, indent: int | None, ascii_only: bool
) -> None:
    line = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    try:
        assert parse_json(line) == value
    except InvalidRequest as error:
        assert "levels deep" in str(error)


@pytest.mark.fuzz
@given(
    st.lists(st.sampled_from([*'{}[]:,"\\ \n\t-+.eE019', "null", "true", "NaN", '"a"', "\\u0061", "1e5", "é", "٢"]), max_size=12)
)
def test_near_json_is_accepted_exactly_when_the_standard_library_accepts_it(tokens: list[str]) -> None:
    line = "".join(tokens)
    try:
        ours = parse_json(line.encode())
    except InvalidJson:
        ours = InvalidJson
    except InvalidRequest:
        return
    try:
        theirs = json.loads(line)
    except ValueError:
        theirs = InvalidJson
    if "NaN" in line:
        assert ours is InvalidJson or "NaN" in str(ours)
    else:
        assert ours == theirs

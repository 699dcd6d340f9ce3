"""Strict JSON: what is refused has a word, what is read is what the standard library reads, and no input is dear."""

from __future__ import annotations

import json
import pickle
import time
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from fable_exec.strictjson import MAX_DEPTH, MAX_DOCUMENT_BYTES, MAX_VALUES, JsonFault, parse_strict, require_strict
from fable_exec.testing.strategies import strict_json_values
from tests.bounds import BUSY_SECONDS

REFUSED: list[tuple[bytes, str]] = [
    (b"", "not-json"),
    (b" \n", "not-json"),
    (b"{", "not-json"),
    (b"{'a':1}", "not-json"),
    (b'{"a":1,}', "not-json"),
    (b"[01]", "not-json"),
    (b"[+1]", "not-json"),
    (b"[.5]", "not-json"),
    ("[1\u0662]".encode(), "not-json"),
    (b'["a\nb"]', "not-json"),
    (b"\0{}", "not-json"),
    (b"\x0b{}", "not-json"),
    ("\u2028{}".encode(), "not-json"),
    (b"// comment\n{}", "not-json"),
    (b"\xef\xbb\xbf{}", "byte-order-mark"),
    (b"\xff", "not-utf8"),
    (b'["\xed\xa0\x80"]', "not-utf8"),
    (b'["\xc0\xaf"]', "not-utf8"),
    ("{}".encode("utf-16"), "not-utf8"),
    (b"{} x", "trailing-bytes"),
    (b"{}{}", "trailing-bytes"),
    (b"{}\0", "trailing-bytes"),
    (b'{"a":1,"a":1}', "duplicate-member"),
    (b'{"a":1,"\\u0061":1}', "duplicate-member"),
    (b'[{"b":{"":0,"":0}}]', "duplicate-member"),
    (b"NaN", "not-finite"),
    (b"[Infinity]", "not-finite"),
    (b'{"a":-Infinity}', "not-finite"),
    (b"[1e400]", "not-finite"),
    (b"[-1e400]", "not-finite"),
    (b'["\\ud800"]', "lone-surrogate"),
    (b'["\\udc00\\ud800"]', "lone-surrogate"),
    (b'{"\\udfff":1}', "lone-surrogate"),
    (b"[100000000000000000000]", "long-number"),
    (b"[-100000000000000000000]", "long-number"),
    (b"1" * 4301, "long-number"),
    (b"0." + b"0" * 100, "long-number"),
    (b"1" * 4_000_000, "long-number"),
    (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "too-deep"),
    (b"[" * 100_000, "too-deep"),
    (b'{"a":' * 100_000, "too-deep"),
    (b'["\\"",' + b"[" * 100_000, "too-deep"),
    (b"[" + b"0," * MAX_VALUES + b"0]", "too-many-values"),
    (b"[" + b"[]," * MAX_VALUES + b"0]", "too-many-values"),
    (b" " * MAX_DOCUMENT_BYTES + b"0", "too-long"),
]


@pytest.mark.parametrize(("raw", "code"), REFUSED, ids=lambda value: repr(value)[:30])
def test_what_is_refused_has_a_word_for_it_and_a_short_sentence(raw: bytes, code: str) -> None:
    with pytest.raises(JsonFault) as caught:
        parse_strict(raw)
    assert caught.value.code == code
    assert 0 < len(str(caught.value)) < 200
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.code, str(again)) == (code, str(caught.value))


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b" \t\r\n{}\n", {}),
        (b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, None),
        (b'"' + b"[" * 1000 + b'"', "[" * 1000),
        (b'"' + b'\\"[' * 1000 + b'"', '"[' * 1000),
        (b"[99999999999999999999]", [99999999999999999999]),
        (b'["\\ud83d\\ude00"]', ["\U0001f600"]),
        (b"[-0.0]", [-0.0]),
        (b'{"a":1,"A":1}', {"a": 1, "A": 1}),
        (b"null", None),
    ],
)
def test_what_is_within_the_rules_is_read(raw: bytes, value: Any) -> None:
    assert parse_strict(raw) == (json.loads(raw) if value is None else value)


def test_a_length_can_be_narrowed() -> None:
    assert parse_strict(b"[]", 2) == []
    with pytest.raises(JsonFault, match="longer than 2"):
        parse_strict(b"[] ", 2)


@hypothesis.given(strict_json_values())
def test_what_is_strict_is_read_as_the_standard_library_reads_it(value: Any) -> None:
    for raw in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert repr(parse_strict(raw.encode())) == repr(json.loads(raw)) == repr(value)


@pytest.mark.fuzz
@hypothesis.given(st.binary() | st.text('[]{},:"\\0123456789.eE+-ntfaNI \n\u00e9', max_size=60).map(str.encode))
def test_no_bytes_do_anything_but_give_a_value_or_a_fault(raw: bytes) -> None:
    try:
        value = parse_strict(raw)
    except JsonFault:
        return
    require_strict(value)
    assert repr(json.loads(raw)) == repr(value)


@hypothesis.given(strict_json_values(), st.data())
def test_every_cut_and_every_byte_more_is_a_fault(value: Any, data: st.DataObject) -> None:
    raw = json.dumps([value]).encode()
    cut = data.draw(st.integers(0, len(raw) - 1))
    for bad in (raw[:cut], raw + b"]", b"\xef\xbb\xbf" + raw):
        with pytest.raises(JsonFault):
            parse_strict(bad)


class _Text(str):
    pass


def cyclic() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


def doubled(times: int) -> list[Any]:
    value: list[Any] = [1]
    for _ in range(times):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({1: 2}, "not-a-json-value"),
        ({_Text("a"): 2}, "not-a-json-value"),
        ([_Text("a")], "not-a-json-value"),
        ([(1, 2)], "not-a-json-value"),
        ([b"a"], "not-a-json-value"),
        ([{1}], "not-a-json-value"),
        ([object()], "not-a-json-value"),
        ([float("nan")], "not-finite"),
        ([10**5000], "long-number"),
        (["\ud800"], "lone-surrogate"),
        ({"\ud800": 1}, "lone-surrogate"),
        (cyclic(), "too-deep"),
        (doubled(60), "too-many-values"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
def test_values_that_no_text_could_have_been_are_refused_too(value: Any, code: str) -> None:
    with pytest.raises(JsonFault) as caught:
        require_strict(value)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "raw",
    [
        b"[" + b'"",' * 1_300_000 + b"0]",
        b'"' * MAX_DOCUMENT_BYTES,
        b'"' + b"\\" * (MAX_DOCUMENT_BYTES - 1),
        b"{" + b",".join(b'"%d":1' % number for number in range(150_000)) + b',"149999":1}',
        b"[" * (MAX_DOCUMENT_BYTES // 2) + b"]" * (MAX_DOCUMENT_BYTES // 2),
        b"[" + b"0," * (MAX_VALUES - MAX_DEPTH - 2) + b"0]",
    ],
    ids=["texts", "quotes", "backslashes", "names", "brackets", "values"],
)
def test_the_dearest_inputs_are_soon_read_or_refused(raw: bytes) -> None:
    begun = time.process_time()
    try:
        parse_strict(raw)
    except JsonFault:
        pass
    assert time.process_time() - begun < BUSY_SECONDS

"""The bytes of a document: exact when written, and told apart from everything that is none when read."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.statefile.documents import MAX_DOCUMENT_BYTES, BadDocument, Form, Unreadable, decode_document, encode_document
from tests.bounds import BUSY_SECONDS
from tests.fuzzing import A_TENTH
from tests.statefile.states import FORM, OLD

RAW = encode_document(OLD, FORM)


def with_members(**members: Any) -> bytes:
    return (json.dumps({**OLD, **members}) + "\n").encode()


def test_a_document_is_sorted_indented_ascii_with_a_newline() -> None:
    document = {**FORM.members, "z": "é\u2028", "a": {"y": None, "b": [1]}}
    assert encode_document(document, FORM) == (
        b'{\n  "a": {\n    "b": [\n      1\n    ],\n    "y": null\n  },\n'
        b'  "execution_id": "7f0c2a0e-0000-4000-8000-000000000001",\n  "schema_version": 1,\n  "z": "\\u00e9\\u2028"\n}\n'
    )


UNREADABLE = [
    # what it is, bytes, reason
    ("empty", b"", "torn"),
    ("a newline", b"\n", "torn"),
    ("zeros of its size", bytes(len(RAW)), "torn"),
    ("zeros after it", RAW + bytes(100), "torn"),
    ("zeros in its second half", RAW[: len(RAW) // 2] + bytes(len(RAW) // 2), "torn"),
    ("two documents", RAW + RAW, "torn"),
    ("a longer one that was overwritten in place", RAW + b'te": "old"\n}\n', "torn"),
    ("no JSON", b"running\n", "torn"),
    ("another object", b"{}\n", "foreign"),
    ("a list", b"[]\n", "foreign"),
    ("a number", b"7\n", "foreign"),
    ("null", b"null\n", "foreign"),
    ("no schema", (json.dumps({"execution_id": OLD["execution_id"]}) + "\n").encode(), "foreign"),
    ("an older schema", with_members(schema_version=0), "foreign"),
    ("a newer schema", with_members(schema_version=2), "newer"),
    ("true for 1", with_members(schema_version=True), "foreign"),
    ("1.0 for 1", with_members(schema_version=1.0), "foreign"),
    ("a schema in words", with_members(schema_version="2"), "foreign"),
    ("another execution", with_members(execution_id="7f0c2a0e-0000-4000-8000-000000000002"), "foreign"),
    ("no execution", with_members(execution_id=None), "foreign"),
    ("a member twice", RAW.replace(b'"note": "old"', b'"state": "exited"'), "foreign"),
    ("NaN", RAW.replace(b'"old"', b"NaN"), "foreign"),
    ("UTF-8", RAW.replace(b'"old"', '"öld"'.encode()), "foreign"),
    ("a byte-order mark", b"\xef\xbb\xbf" + RAW, "foreign"),
    ("UTF-16", RAW.decode().encode("utf-16"), "torn"),
    ("too long", RAW.replace(b'"old"', b'"' + b"x" * MAX_DOCUMENT_BYTES + b'"'), "foreign"),
    ("too deep", b"[" * 100_000 + b"\n", "foreign"),
    ("one level too deep", RAW.replace(b'"old"', b"[" * 64 + b"]" * 64), "foreign"),
    ("too deep behind much that is not", RAW.replace(b'"old"', b"[" + b"[]," * 5000 + b"[" * 64 + b"]" * 65), "foreign"),
]


@pytest.mark.parametrize(("raw", "reason"), [row[1:] for row in UNREADABLE], ids=[row[0] for row in UNREADABLE])
def test_what_is_no_document_is_told_with_its_kind(raw: bytes, reason: str) -> None:
    with pytest.raises(BadDocument) as caught:
        decode_document(raw, FORM)
    assert caught.value.reason.value == reason
    assert str(caught.value).isprintable() and len(str(caught.value)) < 300


@pytest.mark.parametrize("raw", [bytes(100), RAW + bytes(100), RAW[:50] + bytes(len(RAW) - 51) + b"\n"])
def test_what_a_power_cut_filled_with_zeros_is_told_as_such(raw: bytes) -> None:
    with pytest.raises(BadDocument, match="NUL bytes, as after a power cut"):
        decode_document(raw, FORM)


def test_no_cut_of_a_document_is_one() -> None:
    assert decode_document(RAW, FORM) == OLD
    for length in range(len(RAW)):
        with pytest.raises(BadDocument) as caught:
            decode_document(RAW[:length], FORM)
        assert caught.value.reason is Unreadable.TORN


def test_a_raised_recursion_limit_does_not_let_a_file_end_the_process() -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)
    try:
        with pytest.raises(BadDocument):
            decode_document(b"[" * (MAX_DOCUMENT_BYTES - 1) + b"\n", FORM)
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    "value",
    [["[" * 5000], ["[{" * 4000 + '\\"[' + '"'], [[]] * 5000, [{}] * 5000, {"]" * 99: "[" * 99}, json.loads("[" * 63 + "]" * 63)],
    ids=["brackets in a string", "quotes in it too", "many lists", "many objects", "in a name", "as deep as may be"],
)
def test_only_what_is_deep_is_too_deep(value: Any) -> None:
    document = {**OLD, "argv": value}
    assert decode_document(encode_document(document, FORM), FORM) == document


@pytest.mark.parametrize("noise", [b'"', b'\\"', b'"\\', b'["', b"["])
def test_no_file_takes_long_to_be_refused(noise: bytes) -> None:
    raw = b"[" * 65 + noise * ((MAX_DOCUMENT_BYTES - 100) // len(noise)) + b"\n"
    began = time.process_time()
    with pytest.raises(BadDocument):
        decode_document(raw, FORM)
    assert time.process_time() - began < BUSY_SECONDS


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.fuzz
@A_TENTH
@given(st.dictionaries(st.text(), JSON, max_size=8))
def test_what_is_written_is_read_again(members: dict[str, Any]) -> None:
    document = {**members, **FORM.members}
    raw = encode_document(document, FORM)
    assert decode_document(raw, FORM) == document
    assert raw.isascii() and raw.endswith(b"\n") and b"\0" not in raw
    assert encode_document(dict(reversed(document.items())), FORM) == raw


@pytest.mark.fuzz
@given(st.binary(max_size=200) | st.binary(max_size=20).map(lambda noise: RAW[:40] + noise + RAW[40:]))
def test_noise_is_refused_and_nothing_else_happens(raw: bytes) -> None:
    try:
        assert decode_document(raw, FORM).items() >= FORM.members.items()
    except BadDocument:
        pass


AROUND: list[Any] = []
AROUND.append(AROUND)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"note": float("nan")}, "Out of range float"),
        ({"schema_version": 2}, "newer"),
        ({"execution_id": "x"}, "its execution_id is 'x'"),
        ({"note": "x" * MAX_DOCUMENT_BYTES}, "longer than"),
        ({1: "a", "1": "b"}, "the name 1 is no text"),
        ({"note": [{1: 2}]}, "the name 1 is no text"),
        ({"note": {None: 2}}, "the name None is no text"),
        ({"note": Path("x")}, "Path is not JSON serializable"),
        ({"note": {"x"}}, "set is not JSON serializable"),
        ({"note": [b"x"]}, "bytes is not JSON serializable"),
        ({"note": json.loads("[" * 64 + "]" * 64)}, "more than 64 levels"),
        ({"note": AROUND}, "more than 64 levels"),
    ],
    ids=range(12),
)
def test_what_could_not_be_read_again_is_not_written(members: dict[Any, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        encode_document({**OLD, **members}, FORM)


def test_a_form_does_not_change_with_the_mapping_it_was_made_of() -> None:
    members = {"execution_id": "a"}
    form = Form(1, members)
    members["execution_id"] = "b"
    assert form.members == {"schema_version": 1, "execution_id": "a"}

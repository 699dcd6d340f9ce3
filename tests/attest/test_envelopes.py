"""Envelopes and statements as bytes: one way to write them, and nothing but bytes can come of bytes."""

from __future__ import annotations

import base64
import json
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from fable_exec.attest import Envelope, Signature, Statement, Subject, read_bundle, write_bundle
from fable_exec.attest.canonical import canonical_bytes
from fable_exec.attest.envelopes import pae
from fable_exec.errors import InvalidRequest, StateUnreadable
from tests.attest.made import INTEROP, TREE

ENVELOPE = Envelope("type", b"\x00payload\xff", (Signature("id", b"\xfb\xff signature"),))


def test_what_is_signed_is_the_example_of_the_specification_and_the_vector() -> None:
    assert pae("http://example.com/HelloWorld", b"hello world") == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert pae("é", b"") == "DSSEv1 2 é 0 ".encode()  # lengths are of bytes
    statement = (INTEROP / "statement.json").read_bytes()
    assert pae("application/vnd.in-toto+json", statement) == (INTEROP / "pae.bin").read_bytes()


@hypothesis.given(
    st.text(st.characters(codec="utf-8"), max_size=20), st.binary(max_size=20), st.text(max_size=20), st.binary(max_size=20)
)
def test_no_two_payloads_are_signed_as_one(kind: str, payload: bytes, other_kind: str, other: bytes) -> None:
    hypothesis.assume((kind, payload) != (other_kind, other) and other_kind.isascii())
    assert pae(kind, payload) != pae(other_kind, other)


@hypothesis.given(
    st.text(st.characters(codec="utf-8")),
    st.binary(),
    st.lists(st.tuples(st.text(st.characters(codec="utf-8")), st.binary()), max_size=3),
)
def test_an_envelope_is_read_as_it_was_written_and_written_as_it_was_read(
    kind: str, payload: bytes, signatures: list[tuple[str, bytes]]
) -> None:
    envelope = Envelope(kind, payload, tuple(Signature(*each) for each in signatures))
    data = envelope.to_json()
    assert Envelope.from_json(data) == envelope
    assert b"\n" not in data
    assert json.dumps(json.loads(data), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() == data


def members(**changed: Any) -> bytes:
    found = {**json.loads(ENVELOPE.to_json()), **changed}
    return json.dumps({name: value for name, value in found.items() if value is not ...}).encode()


def test_both_alphabets_of_base64_and_unknown_members_are_taken_as_the_specification_demands() -> None:
    url_safe = base64.urlsafe_b64encode(b"\xfb\xff signature").decode()
    assert "-" in url_safe
    assert Envelope.from_json(members(signatures=[{"keyid": "id", "sig": url_safe}])) == ENVELOPE
    assert Envelope.from_json(members(new=1, signatures=[{"keyid": "id", "sig": url_safe, "cert": "x"}])) == ENVELOPE
    assert Envelope.from_json(members(signatures=[{"sig": url_safe}])).signatures[0].keyid == ""
    assert Envelope.from_json(members(signatures=[{"keyid": None, "sig": url_safe}])).signatures[0].keyid == ""


@pytest.mark.parametrize(
    "text", ["A", "AB", "AB=", "AB===", "AC==", "A A=", "AA==\n", "AA=A", "é===", "+A-A", "----=", 7, None, ["AA=="]]
)
def test_base64_that_could_be_read_in_two_ways_or_none_is_refused(text: object) -> None:
    for changed in ({"payload": text}, {"signatures": [{"keyid": "", "sig": text}]}):
        with pytest.raises(StateUnreadable, match="base64") as caught:
            Envelope.from_json(members(**changed))
        assert caught.value.reason == "foreign"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "torn"),
        (b"x", "torn"),
        (b"\xef\xbb\xbf" + ENVELOPE.to_json(), "torn"),
        (ENVELOPE.to_json() + b"{}", "torn"),
        (b'{"payload":"","payload":"","payloadType":"","signatures":[]}', "torn"),
        (b"[" * 100_000, "torn"),
        (b" " * 5_000_000, "torn"),
        (b"[]", "foreign"),
        (b"{}", "foreign"),
        (members(payloadType=1), "foreign"),
        (members(payloadType=...), "foreign"),
        (members(payload=...), "foreign"),
        (members(signatures={}), "foreign"),
        (members(signatures=[7]), "foreign"),
        (members(signatures=[{}]), "foreign"),
        (members(signatures=[{"keyid": 7, "sig": ""}]), "foreign"),
        (members(signatures=[{"sig": ""}] * 101), "foreign"),
    ],
)
def test_what_is_no_envelope_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(StateUnreadable) as caught:
        Envelope.from_json(data)
    assert caught.value.reason == reason


@pytest.mark.fuzz
@hypothesis.given(
    st.binary()
    | st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["_type", "predicate", "subject", "digest", "payload", "signatures", "x"]), inner)
        ),
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_bytes_are_read_or_refused_and_nothing_else(data: bytes) -> None:
    for read in (Envelope.from_json, Statement.from_json):
        try:
            read(data)
        except StateUnreadable as error:
            assert error.reason in ("torn", "foreign") and len(str(error)) < 500


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"b": 1, "a": [True, None, -5], "A": {}}, b'{"A":{},"a":[true,null,-5],"b":1}'),
        ("\u20ac$\x0f\nA'B\"\\/\x7f", '"€$\\u000f\\nA\'B\\"\\\\/\x7f"'.encode()),
        (2**53 - 1, b"9007199254740991"),
        ([], b"[]"),
    ],
)
def test_canonical_json_is_that_of_rfc_8785(value: object, written: bytes) -> None:
    assert canonical_bytes(value) == written


@pytest.mark.parametrize(
    "value", [1.5, 2**53, -(2**53), {"é": 1}, {1: 2}, "\ud800", [b"x"], (1,), {"a": {"b": float("nan")}}, {1, 2}]
)
def test_what_others_could_write_otherwise_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequest, match="statement"):
        canonical_bytes(value)


@pytest.mark.requires_ability("rfc8785")
@hypothesis.given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.characters(codec="utf-8")),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(max_codepoint=127)), inner),
    )
)
def test_canonical_json_is_what_rfc8785_writes(value: object) -> None:
    import rfc8785

    assert canonical_bytes(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "subjects",
    [
        (),
        (Subject("", TREE),),
        (Subject("a", TREE), Subject("a", TREE)),
        (Subject("a", ""),),
        (Subject("a", TREE.upper()),),
        (Subject("a", "1"),),
    ],
)
def test_a_statement_that_names_nothing_twice_or_no_digest_is_not_written(subjects: tuple[Subject, ...]) -> None:
    with pytest.raises(InvalidRequest, match=r"statement has subjects|is no SHA-256"):
        Statement(subjects, "type", {}).to_json()


def statement(**changed: Any) -> bytes:
    found = {**json.loads(Statement((Subject("a", TREE),), "type", {"x": 1}).to_json()), **changed}
    return json.dumps({name: value for name, value in found.items() if value is not ...}).encode()


def test_digests_of_algorithms_that_are_not_known_are_ignored() -> None:
    read = Statement.from_json(
        statement(subject=[{"name": "a", "digest": {"sha256": TREE, "gitTree": "x", "sha9": 7}}, {"digest": {"sha1": "y"}}])
    )
    assert read.subjects == (Subject("a", TREE), Subject("", ""))
    assert Statement.from_json(statement(new=1, predicate=...)).predicate == {}


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"[]",
        statement(_type="https://in-toto.io/Statement/v0.1"),
        statement(_type=...),
        statement(predicateType=1),
        statement(predicateType=...),
        statement(predicate=[]),
        statement(subject={}),
        statement(subject=...),
        statement(subject=["a"]),
        statement(subject=[{"name": "a"}]),
        statement(subject=[{"name": 1, "digest": {}}]),
        statement(subject=[{"name": "a", "digest": []}]),
        statement(subject=[{"name": "a", "digest": {"sha256": TREE[:-1]}}]),
        statement(subject=[{"name": "a", "digest": {"sha256": None}}]),
        statement(subject=[{"name": "a", "digest": {"sha256": TREE.upper()}}]),
        statement()[:-1] + b',"predicateType":"other"}',
    ],
)
def test_what_is_no_statement_is_refused(data: bytes) -> None:
    with pytest.raises(StateUnreadable):
        Statement.from_json(data)


def test_a_bundle_holds_one_envelope_a_line_and_one_that_is_torn_hides_no_other() -> None:
    one, two = ENVELOPE, Envelope("other", b"", ())
    assert [Envelope.from_json(each) for each in read_bundle(write_bundle([one, two]))] == [one, two]
    torn = b"torn\n" + write_bundle([one]) + b"\n\n" + two.to_json()
    assert read_bundle(torn) == (b"torn", one.to_json(), two.to_json())
    on_many_lines = json.dumps(json.loads(one.to_json()), indent=2).encode()
    assert [Envelope.from_json(each) for each in read_bundle(on_many_lines)] == [one]
    assert read_bundle(b"") == ()


def test_a_bundle_is_bounded() -> None:
    for data in (b"{}\n" * 1001, b"x" * (17 * 1024 * 1024)):
        with pytest.raises(StateUnreadable, match="bundle"):
            read_bundle(data)

"""The block of a terminal record: one size, whole or seen to be torn, and of one execution only."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.statefile.documents import BadDocument, Form, Unreadable
from fable_exec.statefile.records import MAX_OUTCOME_BYTES, RECORD_BYTES, Condition, Record, decode_record, encode_record
from tests.fuzzing import A_TENTH
from tests.statefile.states import FORM, OUTCOME

BLOCK = encode_record(OUTCOME, FORM)
USED = len(BLOCK.rstrip(b"\0"))
LARGE = {"descendants": {"remaining_pids": list(range(2000))}, "launch_error": "é" * 500}
SECTOR = 512


def test_the_block_has_its_documented_form() -> None:
    header, body, rest = BLOCK.split(b"\n", 2)
    assert header[:-64] == b"fable-exec terminal record 1 000165 "
    assert body == (
        b'{"identity":{"execution_id":"7f0c2a0e-0000-4000-8000-000000000001"},"outcome":{"returncode":0,"state":"exited",'
        b'"termination_reason":"completed"},"schema_version":1}'
    )
    assert len(BLOCK) == RECORD_BYTES and not rest.strip(b"\0")
    assert decode_record(BLOCK, FORM) == Record(Condition.WHOLE, OUTCOME)


@pytest.mark.parametrize("size", [0, 1, 4096, RECORD_BYTES])
def test_zeros_are_an_empty_record(size: int) -> None:
    assert decode_record(bytes(size), FORM) == Record(Condition.EMPTY)


def test_no_change_of_a_byte_passes_for_an_outcome() -> None:
    for place in range(USED):
        for byte in {BLOCK[place] ^ 1, BLOCK[place] ^ 0x20, 0, 255} - {BLOCK[place]}:
            raw = BLOCK[:place] + bytes([byte]) + BLOCK[place + 1 :]
            assert decode_record(raw, FORM) == Record(Condition.TORN)
        assert decode_record(BLOCK[:place], FORM).condition in (Condition.EMPTY, Condition.TORN)


@pytest.mark.parametrize("before", [bytes(RECORD_BYTES), encode_record({"state": "exited", "note": "x" * 9000}, FORM)])
def test_a_torn_overwrite_is_the_old_or_the_new_or_seen(before: bytes) -> None:
    """Every prefix of sectors, and every single sector missing, as a power cut may leave them."""
    after = encode_record(LARGE, FORM)
    sectors = range(0, RECORD_BYTES, SECTOR)
    used = len(after.rstrip(b"\0"))
    torn = [after[:cut] + before[cut:] for cut in sectors]
    torn += [after[:at] + before[at : at + SECTOR] + after[at + SECTOR :] for at in sectors]
    whole = {True: decode_record(after, FORM), False: decode_record(before, FORM)}
    seen = [decode_record(raw, FORM) for raw in torn]
    assert all(record in (*whole.values(), Record(Condition.TORN)) for record in seen)
    assert Record(Condition.TORN) in seen
    assert decode_record(after[:used] + before[used:], FORM) == whole[True]


@pytest.mark.fuzz
@given(st.binary(max_size=300) | st.binary(max_size=40).map(lambda noise: BLOCK[:60] + noise + BLOCK[60:]))
def test_noise_is_never_an_outcome(raw: bytes) -> None:
    record = decode_record(raw, FORM)
    assert record.outcome is None or record.outcome == OUTCOME


def test_the_record_of_something_else_is_foreign_and_a_newer_one_newer() -> None:
    for form, reason in [
        (Form(1, {"execution_id": "another"}), Unreadable.FOREIGN),
        (Form(1, {}), Unreadable.FOREIGN),
        (Form(2, FORM.identity), Unreadable.NEWER),
    ]:
        with pytest.raises(BadDocument) as caught:
            decode_record(encode_record(OUTCOME, form), FORM)
        assert caught.value.reason is reason


def test_a_newer_form_of_the_block_is_newer_and_not_torn() -> None:
    raw = b"fable-exec terminal record 2 000003 " + hashlib.sha256(b"2 000003\n{}\n").hexdigest().encode() + b"\n{}\n"
    with pytest.raises(BadDocument) as caught:
        decode_record(raw.ljust(RECORD_BYTES, b"\0"), FORM)
    assert caught.value.reason is Unreadable.NEWER


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ({"note": Path("x")}, "not JSON serializable"),
        ({"note": {1: 2}}, "the name 1 is no text"),
        ({1: 2, "note": 3}, "the name 1 is no text"),
        ({"note": float("inf")}, "Out of range float"),
        ({"schema_version": 1}, "does not say again"),
        ({"execution_id": FORM.identity["execution_id"]}, "does not say again"),
        ({"note": json.loads("[" * 63 + "]" * 63)}, "more than 64 levels"),
    ],
    ids=range(7),
)
def test_an_outcome_that_could_not_be_read_again_is_refused(outcome: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        encode_record(outcome, FORM)


def test_the_longest_outcome_fits() -> None:
    length = MAX_OUTCOME_BYTES - len(encode_record({"n": ""}, FORM).rstrip(b"\0").split(b"\n", 1)[1])
    outcome = {"n": "x" * length}
    assert decode_record(encode_record(outcome, FORM), FORM) == Record(Condition.WHOLE, outcome)
    longer = encode_record({**OUTCOME, "n": "x" * (length + 1)}, FORM)
    assert decode_record(longer, FORM) == Record(Condition.ABRIDGED, OUTCOME)


_LONG = st.builds(lambda letter, count: letter * count, st.sampled_from("xé"), st.integers(3000, 9000))


@pytest.mark.fuzz
@A_TENTH
@given(st.dictionaries(st.text(max_size=9), st.text(max_size=40) | _LONG, max_size=30))
def test_no_outcome_is_too_long_and_the_shortest_members_are_kept(members: dict[str, str]) -> None:
    outcome = {**members, **OUTCOME}
    block = encode_record(outcome, FORM)
    record = decode_record(block, FORM)
    assert len(block) == RECORD_BYTES and record.outcome is not None
    assert record.outcome.items() >= OUTCOME.items() and record.outcome.items() <= outcome.items()
    assert (record.condition is Condition.WHOLE) == (record.outcome == outcome)
    left_out = [len(json.dumps({name: value})) for name, value in outcome.items() if name not in record.outcome]
    assert not left_out or min(left_out) >= max(len(json.dumps({name: value})) for name, value in record.outcome.items())


def test_two_outcomes_that_differ_in_what_was_left_out_have_two_records() -> None:
    blocks = {encode_record({**OUTCOME, "n": letter * MAX_OUTCOME_BYTES}, FORM) for letter in "xy"}
    assert len(blocks) == 2
    assert [decode_record(block, FORM) for block in blocks] == [Record(Condition.ABRIDGED, OUTCOME)] * 2


def test_a_very_long_outcome_of_many_members_keeps_as_many_as_there_is_room_for() -> None:
    outcome = {f"{number:05}": number for number in range(20_000)}
    record = decode_record(encode_record(outcome, FORM), FORM)
    assert record.outcome is not None and len(record.outcome) > 900

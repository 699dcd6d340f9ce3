"""Streaming: numbered without a gap, no character split, nothing lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec import protocol as p
from fable_exec.errors import BrokerGone
from fable_exec.outcome import EndedBy, Outcome, decode_text
from fable_exec.testing.strategies import json_values

EVENTS: list[p.Event] = [
    p.Started(),
    p.Output(sequence=1, stream="stdout", data=b"out"),
    p.Output(sequence=2, stream="stderr", data="漢".encode()),
    p.Exited(sequence=3, outcome=EndedBy.SIGNALED, exit_code=-9, signal=9),
    p.Exited(sequence=4, outcome=EndedBy.TIMED_OUT, exit_code=None, signal=None),
]


@pytest.mark.parametrize("encoding", ["utf-8", "base64"])
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_event_survives_the_wire(event: p.Event, encoding: Any) -> None:
    wire = p.encode_event(event, "id", encoding)
    assert wire["id"] == "id"
    assert p.decode_event(wire) == event
    assert "id" not in p.encode_event(event)


def stream(encoding: Any, pieces: list[tuple[Any, bytes]]) -> list[dict[str, Any]]:
    encoder = p.EventEncoder(7, encoding)
    events = [encoder.started()]
    for name, data in pieces:
        events += encoder.output(name, data)
    return events + encoder.exited(Outcome(ended_by=EndedBy.EXITED, exit_code=0))


pieces = st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=5)))


@pytest.mark.fuzz
@given(pieces, st.sampled_from(["utf-8", "base64"]))
def test_events_are_numbered_and_hold_all_output(given_pieces: list[tuple[Any, bytes]], encoding: Any) -> None:
    wires = stream(encoding, given_pieces)
    assert [wire["sequence"] for wire in wires] == list(range(len(wires)))
    assert {wire["id"] for wire in wires} == {7}
    events = [p.decode_event(wire) for wire in wires]
    assert isinstance(events[0], p.Started) and isinstance(events[-1], p.Exited)
    for name in ("stdout", "stderr"):
        seen = b"".join(event.data for event in events if isinstance(event, p.Output) and event.stream == name)
        written = b"".join(data for which, data in given_pieces if which == name)
        assert seen == (written if encoding == "base64" else decode_text(written).encode())


def test_a_character_split_over_two_reads_comes_whole() -> None:
    data = "€".encode()
    wires = stream("utf-8", [("stdout", data[:2]), ("stderr", b"x"), ("stdout", data[2:])])
    assert [(wire["event"], wire.get("data")) for wire in wires] == [
        ("started", None),
        ("stderr", "x"),
        ("stdout", "€"),
        ("exited", None),
    ]


def test_much_output_is_spread_over_several_events() -> None:
    encoder = p.EventEncoder(None, "base64")
    wires = encoder.output("stdout", b"x" * (2 * p.MAX_EVENT_BYTES + 1))
    assert [len(p.decode_event(wire).data) for wire in wires] == [p.MAX_EVENT_BYTES, p.MAX_EVENT_BYTES, 1]


@pytest.mark.fuzz
@given(st.dictionaries(st.sampled_from("event sequence data encoding outcome exit_code signal".split()), json_values()))
def test_no_event_makes_a_client_raise_anything_but_broker_gone(members: dict[str, Any]) -> None:
    for word in ("started", "stdout", "exited", members.get("event")):
        try:
            p.decode_event({**members, "event": word})
        except BrokerGone:
            pass

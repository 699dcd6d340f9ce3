"""The clients' core: which line belongs to whom, whatever order they come in and however they are cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fable_exec import BrokerGone, FrameTooLarge, Limits, PathNotFound
from fable_exec.client.conversation import Conversation, Pending
from fable_exec.protocol import ExecuteCommand, InspectFiles, Output, Probe, Started, StatPath, WriteFile

STAT = {"path": "a", "kind": "file", "size_bytes": 1, "mode": 384, "links": 1, "modified_seconds": 1.0}


def conversation() -> Conversation:
    return Conversation(Limits())


def asked(talk: Conversation, request: Any) -> tuple[Pending, dict[str, Any], list[int]]:
    woken: list[int] = []
    pending, line = talk.ask(request, lambda: woken.append(1))
    return pending, json.loads(line), woken


def line(**members: Any) -> bytes:
    return json.dumps(members).encode() + b"\n"


def test_answers_find_their_requests_in_any_order_and_byte_by_byte() -> None:
    talk = conversation()
    first, sent_first, _ = asked(talk, StatPath(path="a"))
    second, sent_second, _ = asked(talk, StatPath(path="b"))
    assert sent_first["id"] != sent_second["id"]
    stream = line(id=sent_second["id"], ok=False, error="FileNotFoundError", message="gone", code="not-found")
    stream += line(id=sent_first["id"], ok=True, result=STAT)
    for byte in stream:
        talk.receive(bytes([byte]))
    assert first.result().path == "a"  # type: ignore[attr-defined]  # it was a StatPath
    with pytest.raises(PathNotFound, match="gone"):
        second.result()
    assert talk.waiting == []


def test_bytes_are_asked_for_exactly() -> None:
    talk = conversation()
    assert asked(talk, InspectFiles(path="a"))[1]["encoding"] == "base64"
    assert asked(talk, ExecuteCommand(command=["a"], stdin=b"\xff"))[1]["encoding"] == "base64"
    assert "encoding" not in asked(talk, WriteFile(path="a", content=b"text"))[1]


def test_events_go_to_the_one_who_asked() -> None:
    talk = conversation()
    pending, sent, woken = asked(talk, ExecuteCommand(command=["a"], stream=True))
    talk.receive(line(id=sent["id"], event="started", sequence=0))
    talk.receive(line(id=sent["id"], event="stdout", sequence=1, data="/w==", encoding="base64"))
    talk.receive(line(id=99, event="stdout", sequence=1, data="x"))
    assert list(pending.events) == [Started(), Output(sequence=1, stream="stdout", data=b"\xff")]
    assert len(woken) == 2
    assert not pending.done


def test_an_answer_nobody_waits_for_any_more_is_dropped() -> None:
    talk = conversation()
    pending, sent, woken = asked(talk, StatPath(path="a"))
    talk.forget(pending)
    talk.receive(line(id=sent["id"], ok=True, result=STAT) + line(id=77, ok=True, result={}))
    assert (pending.done, woken) == (False, [])
    again, sent, _ = asked(talk, StatPath(path="a"))
    talk.receive(line(id=sent["id"], ok=True, result=STAT))
    assert again.done


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\n",
        b"[]\n",
        b'{"id": true, "ok": true, "result": {}}\n',
        b'{"ok": true, "result": {}}\n',
        b'{"id": 1, "ok": "yes"}\n',
        b'{"id": 1, "event": "exploded", "sequence": 1}\n',
        b'{"ok": false, "error": "InvalidFrame", "message": "x", "code": "frame-too-large"}\n',
        b"\xff\n",
    ],
)
def test_a_line_that_no_broker_sends_is_the_end_of_the_connection(raw: bytes) -> None:
    talk = conversation()
    first, second = asked(talk, Probe())[0], asked(talk, Probe())[0]
    talk.receive(raw)
    for pending in (first, second):
        with pytest.raises((BrokerGone, FrameTooLarge)):
            pending.result()
    with pytest.raises((BrokerGone, FrameTooLarge)):
        talk.ask(Probe(), lambda: None)


def test_the_end_of_the_stream_is_the_end_for_everyone_with_an_error_of_his_own() -> None:
    talk = conversation()
    waiting = [asked(talk, Probe())[0] for _ in range(3)]
    talk.receive(b"")
    errors = []
    for pending in waiting:
        with pytest.raises(BrokerGone) as caught:
            pending.result()
        errors.append(caught.value)
    assert len({id(error) for error in errors}) == 3


def test_a_request_that_the_broker_would_not_read_is_not_sent() -> None:
    talk = Conversation(Limits(max_frame_bytes=64 * 1024))
    with pytest.raises(FrameTooLarge):
        talk.ask(WriteFile(path="a", content=b"x" * 64 * 1024), lambda: None)
    assert talk.waiting == []
    assert talk.ask(WriteFile(path="a", content=b"x" * 60_000), lambda: None)


def test_a_line_beyond_every_bound_is_the_end() -> None:
    talk = Conversation(Limits(max_answer_bytes=64 * 1024))
    pending = asked(talk, Probe())[0]
    talk.receive(b"x" * 3_000_000)
    talk.receive(b"\n")
    with pytest.raises(BrokerGone):
        pending.result()

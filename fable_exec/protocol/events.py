"""What a streamed command says while it runs.

A request with ``"stream": true`` is answered by events and then by its ordinary answer, which holds the whole result. The events
of one request are numbered from 0 without a gap: one `started`, any number of `stdout` and `stderr`, one `exited`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from fable_exec.errors import BrokerGone, InvalidRequest
from fable_exec.outcome import EndedBy, Outcome, TextDecoder
from fable_exec.protocol.decoding import to_bytes
from fable_exec.protocol.requests import Encoding
from fable_exec.protocol.rules import kind

__all__ = ["MAX_EVENT_BYTES", "Event", "EventEncoder", "Exited", "Output", "Started", "decode_event", "encode_event"]

MAX_EVENT_BYTES = 64 * 1024
"""Most bytes of output in one event; more are spread over several."""

Stream: TypeAlias = Literal["stdout", "stderr"]


@attrs.frozen(kw_only=True)
class Started:
    """The command runs."""

    sequence: int = 0


@attrs.frozen(kw_only=True)
class Output:
    """The command wrote `data` to `stream`."""

    sequence: int
    stream: Stream
    data: bytes


@attrs.frozen(kw_only=True)
class Exited:
    """The call has ended, for the reason in `outcome`; the answer with the whole result follows."""

    sequence: int
    outcome: EndedBy
    exit_code: int | None
    signal: int | None


Event: TypeAlias = Started | Output | Exited


class EventEncoder:
    """Numbers the events of one request and writes them as objects of lines.

    In encoding "utf-8" a character that two reads split stays whole: its first bytes wait for the rest.
    """

    def __init__(self, request_id: str | int | None, encoding: Encoding = "utf-8") -> None:
        self._id = request_id
        self._encoding: Encoding = encoding
        self._sequence = 0
        self._decoders = {"stdout": TextDecoder(), "stderr": TextDecoder()}

    def started(self) -> dict[str, Any]:
        """The event that comes first."""
        return self._next("started", {})

    def output(self, stream: Stream, data: bytes) -> list[dict[str, Any]]:
        """The events, none to several, that hand out `data`."""
        pieces = (data[at : at + MAX_EVENT_BYTES] for at in range(0, len(data), MAX_EVENT_BYTES))
        return [event for piece in pieces for event in self._output(stream, piece, final=False)]

    def exited(self, outcome: Outcome) -> list[dict[str, Any]]:
        """What was still waiting of a split character, and the event that comes last."""
        rest = [event for stream in ("stdout", "stderr") for event in self._output(stream, b"", final=True)]
        code = outcome.exit_code if outcome.signal is None else -outcome.signal
        members = {
            "outcome": outcome.ended_by.value,
            "exit_code": None if outcome.timed_out else code,
            "signal": outcome.signal,
        }
        return [*rest, self._next("exited", members)]

    def _output(self, stream: str, data: bytes, *, final: bool) -> Iterator[dict[str, Any]]:
        if self._encoding == "base64":
            if data:
                yield self._next(stream, {"data": base64.b64encode(data).decode("ascii"), "encoding": "base64"})
            return
        text = self._decoders[stream].feed(data, final=final)
        if text:
            yield self._next(stream, {"data": text})

    def _next(self, word: str, members: dict[str, Any]) -> dict[str, Any]:
        head: dict[str, Any] = {"event": word, "sequence": self._sequence}
        self._sequence += 1
        return {**({} if self._id is None else {"id": self._id}), **head, **members}


def encode_event(event: Event, request_id: str | int | None = None, encoding: Encoding = "base64") -> dict[str, Any]:
    """One event by itself, with the number it has. In "utf-8" its data must end at a character boundary (see EventEncoder)."""
    wire: dict[str, Any] = {} if request_id is None else {"id": request_id}
    if isinstance(event, Started):
        return {**wire, "event": "started", "sequence": event.sequence}
    if isinstance(event, Exited):
        members = {"outcome": event.outcome.value, "exit_code": event.exit_code, "signal": event.signal}
        return {**wire, "event": "exited", "sequence": event.sequence, **members}
    wire.update(event=event.stream, sequence=event.sequence)
    if encoding == "base64":
        return {**wire, "data": base64.b64encode(event.data).decode("ascii"), "encoding": "base64"}
    return {**wire, "data": event.data.decode("utf-8", "replace")}


def decode_event(members: Mapping[str, Any]) -> Event:
    """The event that `members` (an object with a member `event`) are; its id is left to the caller.

    Raises:
        BrokerGone: they are not.
    """
    try:
        return _decoded(members)
    except (InvalidRequest, KeyError, TypeError, ValueError) as error:
        raise BrokerGone(f"the broker's event cannot be understood: {error}") from None


def _decoded(members: Mapping[str, Any]) -> Event:
    word, sequence = members["event"], _integer(members["sequence"])
    if word == "started":
        return Started(sequence=sequence)
    if word in ("stdout", "stderr"):
        encoding = "base64" if members.get("encoding") == "base64" else "utf-8"
        return Output(sequence=sequence, stream=word, data=to_bytes(members["data"], encoding, "data"))
    if word != "exited":
        raise ValueError(f"there is no event {word!r:.60}")
    code, signal = (None if members[name] is None else _integer(members[name]) for name in ("exit_code", "signal"))
    return Exited(sequence=sequence, outcome=EndedBy(members["outcome"]), exit_code=code, signal=signal)


def _integer(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"an integer expected, not {kind(value)}")
    return value

"""The block of a terminal record: how an execution ended, in a file of one size that is overwritten in place. Pure.

    fable-exec terminal record 1 000123 <SHA-256 of the line without it, and of the rest>
    {"identity":{...},"outcome":{...},"schema_version":1}

and NUL bytes up to RECORD_BYTES. An outcome that is too long for it is recorded without its longest members, and with the SHA-256
of all of it as `outcome_sha256`: a list of survivors may be lost, the end and its reason may not. A block that was torn while it
was overwritten is seen, and one never written is empty.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs

from fable_exec.statefile.documents import BadDocument, Form, Unreadable, encode_json, parse_object

__all__ = ["MAX_OUTCOME_BYTES", "RECORD_BYTES", "Condition", "Record", "decode_record", "encode_record", "kept_of", "room_for"]

RECORD_BYTES = 16 * 1024
"""Size of the file from its first to its last day: what is not asked for at the end cannot be refused then."""

MAX_OUTCOME_BYTES = RECORD_BYTES - 512
"""Longest JSON of an outcome with the identity it belongs to that is recorded with all its members."""

_VERSION = 1
_HEADER = re.compile(rb"fable-exec terminal record ([0-9]{1,9}) ([0-9]{6}) ([0-9a-f]{64})\n")


class Condition(Enum):
    """What a terminal record is in."""

    ABSENT = "absent"
    EMPTY = "empty"
    """Its space is certain, and nothing was recorded."""
    TORN = "torn"
    """Its writer died, or is at it at this moment: nothing is recorded."""
    ABRIDGED = "abridged"
    """It is recorded, and the longest members of the outcome are not."""
    WHOLE = "whole"


@attrs.frozen
class Record:
    """What was read. `outcome` is there when it is whole or abridged."""

    condition: Condition
    outcome: dict[str, Any] | None = None


def encode_record(outcome: Mapping[str, Any], form: Form) -> bytes:
    """The whole block, with the longest members of `outcome` left out if need be.

    Raises:
        ValueError: `outcome` is no JSON, or says anew what the form says; or the form alone is too long.
    """
    body = encode_json(_content(outcome, form))
    if len(body) > MAX_OUTCOME_BYTES:
        abridged = {**_content(kept_of(outcome, form), form), "outcome_sha256": hashlib.sha256(body).hexdigest()}
        body = encode_json(abridged)
    size = b"%06d" % len(body)
    header = b"fable-exec terminal record %d %s %s\n" % (_VERSION, size, _digest(_VERSION, size, body))
    return (header + body).ljust(RECORD_BYTES, b"\0")


def kept_of(outcome: Mapping[str, Any], form: Form) -> dict[str, Any]:
    """The members of `outcome` that a record has room for, the shortest first. Raises ValueError as `encode_record`."""
    if len(encode_json(_content(outcome, form))) <= MAX_OUTCOME_BYTES:
        return dict(outcome)
    lengths = {name: len(encode_json({name: value})) for name, value in outcome.items()}
    room = room_for(form)
    kept = {}
    for name in sorted(lengths, key=lambda name: (lengths[name], name)):
        room -= lengths[name]
        if room < 0:
            break
        kept[name] = outcome[name]
    return kept


def room_for(form: Form) -> int:
    """How many bytes the members of an outcome have in any case. Raises ValueError when `form` leaves less than half of them."""
    room = MAX_OUTCOME_BYTES - len(encode_json({**_content({}, form), "outcome_sha256": "0" * 64}))
    if room < MAX_OUTCOME_BYTES // 2:
        raise ValueError("the members that say what this is the state of are too long for a terminal record")
    return room


def _content(outcome: Mapping[str, Any], form: Form) -> dict[str, Any]:
    doubled = outcome.keys() & form.members.keys()
    if doubled:
        raise ValueError(f"an outcome does not say again what it is the outcome of: {sorted(doubled)}")
    return {"identity": dict(form.identity), "outcome": dict(outcome), "schema_version": form.schema_version}


def decode_record(raw: bytes, form: Form) -> Record:
    """What `raw`, the whole file, records.

    Raises:
        BadDocument: it is whole, and the outcome of something else, or newer than this library.
    """
    if raw == bytes(len(raw)):
        return Record(Condition.EMPTY)
    header = _HEADER.match(raw)
    if header is None:
        return Record(Condition.TORN)
    version, size = int(header[1]), int(header[2])
    body = raw[header.end() : header.end() + size]
    if len(body) != size or header[3] != _digest(version, header[2], body):
        return Record(Condition.TORN)
    if version != _VERSION:
        raise BadDocument(Unreadable.NEWER, f"its form {version} is newer than {_VERSION}, which this library knows")
    content = parse_object(body)
    return Record(Condition.ABRIDGED if "outcome_sha256" in content else Condition.WHOLE, _outcome(content, form))


def _outcome(content: dict[str, Any], form: Form) -> dict[str, Any]:
    identity, outcome = content.get("identity"), content.get("outcome")
    if not isinstance(identity, dict) or not isinstance(outcome, dict) or outcome.keys() & form.members.keys():
        raise BadDocument(Unreadable.FOREIGN, "its members are not those of a terminal record")
    form.require({**identity, "schema_version": content.get("schema_version")})
    return outcome


def _digest(version: int, size: bytes, body: bytes) -> bytes:
    return hashlib.sha256(b"%d %s\n%s" % (version, size, body)).hexdigest().encode("ascii")

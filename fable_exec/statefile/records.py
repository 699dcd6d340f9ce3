"""The block of a terminal record: how an execution ended, in a file of one size that is overwritten in place. Pure.

    fable-exec terminal record 1 000123 <SHA-256 of the line without it, and of the rest>
    {"identity":{...},"outcome":{...},"schema_version":1}

and NUL bytes up to RECORD_BYTES. So a block that was torn while it was overwritten is seen, and one never written is empty.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs

from fable_exec.statefile.documents import BadDocument, Form, Unreadable, parse_object

__all__ = ["MAX_OUTCOME_BYTES", "RECORD_BYTES", "Condition", "Record", "decode_record", "encode_record"]

RECORD_BYTES = 16 * 1024
"""Size of the file from its first to its last day: what is not asked for at the end cannot be refused then."""

MAX_OUTCOME_BYTES = RECORD_BYTES - 512
"""Longest JSON of an outcome with the identity it belongs to."""

_VERSION = 1
_HEADER = re.compile(rb"fable-exec terminal record ([0-9]{1,9}) ([0-9]{6}) ([0-9a-f]{64})\n")


class Condition(Enum):
    """What a terminal record is in."""

    ABSENT = "absent"
    EMPTY = "empty"
    """Its space is certain, and nothing was recorded."""
    TORN = "torn"
    """Its writer died, or is at it at this moment: nothing is recorded."""
    WHOLE = "whole"


@attrs.frozen
class Record:
    """What was read. `outcome` is there when it is whole."""

    condition: Condition
    outcome: dict[str, Any] | None = None


def encode_record(outcome: Mapping[str, Any], form: Form) -> bytes:
    """The whole block.

    Raises:
        ValueError: `outcome` is no JSON, is too large, or says anew what the form says.
    """
    doubled = outcome.keys() & form.members.keys()
    if doubled:
        raise ValueError(f"an outcome does not say again what it is the outcome of: {sorted(doubled)}")
    content = {"identity": dict(form.identity), "outcome": dict(outcome), "schema_version": form.schema_version}
    body = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n"
    if len(body) > MAX_OUTCOME_BYTES:
        raise ValueError(f"an outcome of {len(body)} bytes does not fit into the {MAX_OUTCOME_BYTES} of a terminal record")
    parse_object(body)
    size = b"%06d" % len(body)
    header = b"fable-exec terminal record %d %s %s\n" % (_VERSION, size, _digest(_VERSION, size, body))
    return (header + body).ljust(RECORD_BYTES, b"\0")


def decode_record(raw: bytes, form: Form) -> Record:
    """What `raw`, the whole file, records.

    Raises:
        BadDocument: it is whole, and the outcome of something else, or newer than this library.
    """
    if not raw.strip(b"\0"):
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
    return Record(Condition.WHOLE, _outcome(parse_object(body), form))


def _outcome(content: dict[str, Any], form: Form) -> dict[str, Any]:
    identity, outcome = content.get("identity"), content.get("outcome")
    if not isinstance(identity, dict) or not isinstance(outcome, dict) or outcome.keys() & form.members.keys():
        raise BadDocument(Unreadable.FOREIGN, "its members are not those of a terminal record")
    form.require({**identity, "schema_version": content.get("schema_version")})
    return outcome


def _digest(version: int, size: bytes, body: bytes) -> bytes:
    return hashlib.sha256(b"%d %s\n%s" % (version, size, body)).hexdigest().encode("ascii")

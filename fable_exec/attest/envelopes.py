"""DSSE envelopes (secure-systems-lab/dsse, version 1): bytes, what they are, and signatures over both. Pure.

What is signed is the decoded payload with its type, not their JSON, so no canonical form has to be agreed on.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Self

import attrs

from fable_exec.attest.canonical import canonical_bytes
from fable_exec.errors import StateUnreadable
from fable_exec.strictjson import JsonFault, parse_strict

__all__ = ["MAX_ENVELOPE_BYTES", "Envelope", "Signature", "pae"]

MAX_ENVELOPE_BYTES = 4 * 1024 * 1024
_MAX_SIGNATURES = 100
_STANDARD = re.compile("[A-Za-z0-9+/]*={0,2}")
_URL_SAFE = re.compile("[A-Za-z0-9_-]*={0,2}")


def pae(payload_type: str, payload: bytes) -> bytes:
    """The bytes that are signed: the pre-authentication encoding, in which nothing of one part can be taken for the other's."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


@attrs.frozen
class Signature:
    """One signature. `keyid` is a hint, and may be ""."""

    keyid: str
    value: bytes = attrs.field(repr=False)


@attrs.frozen
class Envelope:
    """A payload that somebody signed, or says so."""

    payload_type: str
    payload: bytes = attrs.field(repr=False)
    signatures: tuple[Signature, ...]

    @property
    def signed_bytes(self) -> bytes:
        """What each signature is over."""
        return pae(self.payload_type, self.payload)

    def to_json(self) -> bytes:
        """The envelope on one line, in canonical JSON, without a newline."""
        signatures: list[dict[str, Any]] = [{"keyid": each.keyid, "sig": _written(each.value)} for each in self.signatures]
        return canonical_bytes({"payload": _written(self.payload), "payloadType": self.payload_type, "signatures": signatures})

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """The envelope that somebody wrote. Members that are not known are ignored, as the specification says.

        Raises:
            StateUnreadable: it is `torn` (no strict JSON) or `foreign` (no envelope).
        """
        try:
            found = parse_strict(data, MAX_ENVELOPE_BYTES)
        except JsonFault as fault:
            raise _unreadable("torn", str(fault)) from fault
        if not isinstance(found, dict):
            raise _unreadable("foreign", "it is no object")
        kind, rows = found.get("payloadType"), found.get("signatures")
        if not isinstance(kind, str) or not isinstance(rows, list):
            raise _unreadable("foreign", "it has no payloadType or no list of signatures")
        if len(rows) > _MAX_SIGNATURES:
            raise _unreadable("foreign", f"it has more than {_MAX_SIGNATURES} signatures")
        return cls(kind, _read(found.get("payload"), "payload"), tuple(_signature(row) for row in rows))


def _signature(row: Any) -> Signature:
    if not isinstance(row, dict):
        raise _unreadable("foreign", "a signature is no object")
    keyid = row.get("keyid", "")
    if keyid is not None and not isinstance(keyid, str):
        raise _unreadable("foreign", "the id of a key is no text")
    return Signature(keyid or "", _read(row.get("sig"), "sig"))


def _written(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _read(text: Any, name: str) -> bytes:
    """The bytes of base64, of either alphabet as the specification demands, each of them written in the one way there is."""
    if isinstance(text, str) and (_STANDARD.fullmatch(text) or _URL_SAFE.fullmatch(text)):
        standard = text.replace("-", "+").replace("_", "/")
        try:
            data = base64.b64decode(standard, validate=True)
        except binascii.Error:
            data = None
        if data is not None and _written(data) == standard:  # the last digit has bits that mean nothing
            return data
    raise _unreadable("foreign", f"its {name} is no base64")


def _unreadable(reason: str, what: str) -> StateUnreadable:
    return StateUnreadable(f"an envelope ({reason}): {what}", reason=reason)

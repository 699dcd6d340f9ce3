"""What is done to an envelope that whoever verifies it must refuse."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from typing import Any

from fable_exec.attest import Envelope, Signature

__all__ = [
    "PARTS",
    "TAMPERED",
    "changed",
    "every_byte_changed",
    "signed_twice",
    "under_the_name_of",
    "with_a_byte_changed",
    "with_payload",
]

PARTS = ("payload", "sig", "payloadType")
"""What of an envelope is signed, or a signature."""


def changed(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """The envelope with its members changed in place."""
    found = json.loads(data)
    change(found)
    return json.dumps(found).encode()


def with_payload(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Another payload under the signature that is there."""
    return changed(data, lambda found: found.update(payload=b64encode(change(b64decode(found["payload"]))).decode()))


def _with_statement(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    return with_payload(data, lambda payload: changed(payload, change))


def _swap_digests(statement: dict[str, Any]) -> None:
    one, two = statement["subject"]
    one["digest"], two["digest"] = two["digest"], one["digest"]


def signed_twice(data: bytes) -> bytes:
    return changed(data, lambda found: found["signatures"].append(found["signatures"][0]))


def under_the_name_of(data: bytes, keyid: str) -> bytes:
    return changed(data, lambda found: found["signatures"][0].update(keyid=keyid))


TAMPERED: dict[str, Callable[[bytes], bytes]] = {
    "subjects swapped": lambda data: _with_statement(data, _swap_digests),
    "another subject": lambda data: _with_statement(data, lambda found: found["subject"][0].update(digest={"sha256": "0" * 64})),
    "another predicate type": lambda data: _with_statement(
        data, lambda found: found.update(predicateType="https://a.invalid/v1")
    ),
    "another payload type": lambda data: changed(data, lambda found: found.update(payloadType="text/plain")),
    "the signature twice": signed_twice,
    "no signature": lambda data: changed(data, lambda found: found.update(signatures=[])),
}
"""An envelope about two subjects, after what somebody without the key can do to it."""


def with_a_byte_changed(data: bytes, part: str, position: int) -> bytes:
    """One bit of the decoded payload, of the decoded signature, or of the type is another one."""
    envelope = Envelope.from_json(data)
    (signature,) = envelope.signatures
    parts = {"payload": envelope.payload, "sig": signature.value, "payloadType": envelope.payload_type.encode()}
    edited = bytearray(parts[part])
    edited[position] ^= 1
    parts[part] = bytes(edited)
    again = Signature(signature.keyid, parts["sig"])
    return Envelope(parts["payloadType"].decode(), parts["payload"], (again,)).to_json()


def every_byte_changed(data: bytes, step: int = 1) -> Iterator[bytes]:
    """In turn each byte, or each `step`th, of everything that counts."""
    envelope = Envelope.from_json(data)
    lengths = {
        "payload": len(envelope.payload),
        "sig": len(envelope.signatures[0].value),
        "payloadType": len(envelope.payload_type),
    }
    for part in PARTS:
        for position in range(0, lengths[part], step):
            yield with_a_byte_changed(data, part, position)

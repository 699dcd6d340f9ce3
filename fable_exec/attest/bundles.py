"""Files with attestations: one envelope, or one a line (`.intoto.jsonl`). Pure."""

from __future__ import annotations

from collections.abc import Iterable

from fable_exec.attest.envelopes import MAX_ENVELOPE_BYTES, Envelope
from fable_exec.errors import StateUnreadable
from fable_exec.strictjson import JsonFault, parse_strict

__all__ = ["MAX_BUNDLE_BYTES", "read_bundle", "write_bundle"]

MAX_BUNDLE_BYTES = 4 * MAX_ENVELOPE_BYTES
_MAX_ENVELOPES = 1000


def write_bundle(envelopes: Iterable[Envelope]) -> bytes:
    """One envelope a line, each ended by a newline, so that bundles can be appended to one another."""
    return b"".join(envelope.to_json() + b"\n" for envelope in envelopes)


def read_bundle(data: bytes) -> tuple[bytes, ...]:
    """Each envelope of a file as it is written, not yet read: one that is torn hides no other.

    Raises:
        StateUnreadable: the file is longer, or has more lines, than any bundle of ours would.
    """
    if len(data) > MAX_BUNDLE_BYTES:
        raise StateUnreadable(f"a bundle (foreign): it is longer than {MAX_BUNDLE_BYTES} bytes", reason="foreign")
    if _is_json(data):  # one envelope, on as many lines as it likes
        return (data,)
    lines = tuple(line for line in data.split(b"\n") if line.strip())
    if len(lines) > _MAX_ENVELOPES:
        raise StateUnreadable(f"a bundle (foreign): it has more than {_MAX_ENVELOPES} lines", reason="foreign")
    return lines


def _is_json(data: bytes) -> bool:
    try:
        parse_strict(data, MAX_ENVELOPE_BYTES)
    except JsonFault:
        return False
    return True

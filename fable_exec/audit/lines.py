"""One line of the audit log: its form, its digest, and what may stand in it. Pure.

A line is one JSON object of printable ASCII::

    {"sequence":7,"time":"2026-01-02T03:04:05.678901Z","kind":"decision","facts":{...},"previous":"<hex>","digest":"<hex>"}

`digest` is the SHA-256 of the line's bytes with the member `digest` left out; `previous` is the digest of the line before, or 64
zeros. So a line cannot be changed, and none removed, added or moved, without every later line changing too.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import attrs

from fable_exec.sha256text import is_sha256

__all__ = ["FIRST_PREVIOUS", "GAP", "MAX_LINE_BYTES", "AuditHead", "BadLine", "Line", "encode_line", "parse_line", "safe_facts"]

MAX_LINE_BYTES = 8192
"""Longest line, its newline included; what does not fit is cut before it is written."""

FIRST_PREVIOUS = "0" * 64
"""What the first line has for `previous`."""

GAP = "gap"
"""Kind of the lines by which the log itself says that something is missing."""

_KIND = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_DIGEST_MEMBER = re.compile(rb',"digest":"([0-9a-f]{64})"\}')
_DIGEST_MEMBER_LENGTH = len(',"digest":""}') + 64
_MEMBERS = {"sequence", "time", "kind", "facts", "previous", "digest"}

_MAX_FACTS_BYTES = MAX_LINE_BYTES - 512
_MAX_TEXT, _MAX_ITEMS, _MAX_DEPTH = 1024, 64, 4
_TIGHT_TEXT, _TIGHT_ITEMS = 96, 8
_WITHHELD = frozenset(
    {
        "authorization",
        "content",
        "data",
        "env",
        "environment",
        "new",
        "old",
        "password",
        "secret",
        "stdin",
        "token",
        "write_token",
    }
)
"""Facts of these names carry secrets or content wherever this library uses them; a slip of a caller must not write them down."""

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False, check_circular=False).encode


class BadLine(ValueError):
    """The bytes are not a line of an audit log."""


@attrs.frozen
class AuditHead:
    """The end of a chain: the last line's number (0 for none) and digest. Whoever keeps it can tell later that a log was cut."""

    sequence: int = 0
    digest: str = FIRST_PREVIOUS


@attrs.frozen
class Line:
    """A line that was read; its digest fits its bytes."""

    sequence: int
    time: str
    kind: str
    facts: Mapping[str, Any]
    previous: str
    digest: str

    @property
    def head(self) -> AuditHead:
        """The head of a log that ends with this line."""
        return AuditHead(self.sequence, self.digest)


def encode_line(after: AuditHead, time: str, kind: str, facts: Mapping[str, Any]) -> tuple[bytes, AuditHead]:
    """The line that follows `after`, newline included, and the head it makes. `facts` are made safe first."""
    if _KIND.fullmatch(kind) is None:
        raise ValueError(f"the kind of an audit line is a short lower-case word, not {kind!a:.80}")
    sequence = after.sequence + 1
    body = f'{{"sequence":{sequence},"time":"{time}","kind":"{kind}","facts":{_facts_text(facts)},"previous":"{after.digest}"'
    digest = hashlib.sha256(f"{body}}}".encode("ascii")).hexdigest()
    return f'{body},"digest":"{digest}"}}\n'.encode("ascii"), AuditHead(sequence, digest)


def parse_line(raw: bytes) -> Line:
    """The line in `raw`, given without its newline. Raises BadLine."""
    found = _DIGEST_MEMBER.fullmatch(raw, max(0, len(raw) - _DIGEST_MEMBER_LENGTH))
    if found is None or len(raw) >= MAX_LINE_BYTES:
        raise BadLine("not a line of an audit log")
    digest = found[1].decode()
    if hashlib.sha256(raw[: found.start()] + b"}").hexdigest() != digest:
        raise BadLine("its digest does not fit its bytes")
    try:
        members = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BadLine("not JSON") from error
    if not isinstance(members, dict) or members.keys() != _MEMBERS or not _well_formed(members):
        raise BadLine("its members are not those of an audit line")
    return Line(**members)


def safe_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """`facts` as bounded JSON values: text without lone surrogates and cut, bytes as their length, secrets by name withheld."""
    return _safe_members(facts, 0, _MAX_TEXT, _MAX_ITEMS)


def _facts_text(facts: Mapping[str, Any]) -> str:
    text = _encode(safe_facts(facts))
    if len(text) > _MAX_FACTS_BYTES:
        text = _encode(_safe_members(facts, 0, _TIGHT_TEXT, _TIGHT_ITEMS) | {"cut_from_bytes": len(text)})
    if len(text) > _MAX_FACTS_BYTES:
        text = _encode({"cut_from_bytes": len(text)})
    return text.replace("\x7f", "\\u007f") if "\x7f" in text else text  # DEL is the one control that JSON leaves as it is


def _safe(value: Any, depth: int, most_text: int, most_items: int) -> Any:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _safe_text(str.__str__(value), most_text)
    if isinstance(value, int):
        return int(value) if -(2**53) < value < 2**53 else "an integer beyond 2**53"
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{len(value)} bytes"
    if isinstance(value, PurePath):
        return _safe_text(str(value), most_text)
    if depth < _MAX_DEPTH and isinstance(value, Mapping):
        return _safe_members(value, depth + 1, most_text, most_items)
    if depth < _MAX_DEPTH and isinstance(value, (list, tuple, set, frozenset)):
        return _safe_items(list(value), depth + 1, most_text, most_items)
    return f"<{type(value).__name__}>"


def _safe_members(facts: Mapping[str, Any], depth: int, most_text: int, most_items: int) -> dict[str, Any]:
    safe: dict[str, Any] = {}
    for name, value in list(facts.items())[:most_items]:
        key = _safe_text(str(_safe(name, _MAX_DEPTH, 64, 0)), 64)
        safe[key] = "<withheld>" if key.lower() in _WITHHELD else _safe(value, depth, most_text, most_items)
    if len(facts) > most_items:
        safe["omitted_members"] = len(facts) - most_items
    return safe


def _safe_items(values: list[Any], depth: int, most_text: int, most_items: int) -> list[Any]:
    safe = [_safe(value, depth, most_text, most_items) for value in values[:most_items]]
    return safe if len(values) <= most_items else [*safe, f"… {len(values) - most_items} more"]


def _safe_text(text: str, most: int) -> str:
    if len(text) > most:
        text = f"{text[:most]}… {len(text) - most} more characters"
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate would not be JSON for strict readers


def _well_formed(members: Mapping[str, Any]) -> bool:
    return (
        type(members["sequence"]) is int
        and members["sequence"] > 0
        and isinstance(members["facts"], dict)
        and all(isinstance(members[name], str) for name in ("time", "kind"))
        and is_sha256(members["previous"])
    )

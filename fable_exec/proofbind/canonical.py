"""The one way in which a document is written before it is hashed or signed. Pure.

Members sorted by code points, no white space, ASCII, floats as Python writes them: what generators of receipts hash. It is not
RFC 8785, which sorts by UTF-16 units and writes numbers in another way (ADR 0181).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

__all__ = ["canonical_bytes", "canonical_sha256"]


def canonical_bytes(value: Any) -> bytes:
    """The bytes of `value`, which is strict JSON (`fable_exec.strictjson`)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


def canonical_sha256(value: Any) -> str:
    """Their SHA-256, in lower-case hexadecimal."""
    return hashlib.sha256(canonical_bytes(value)).hexdigest()

"""Canonical JSON of what we write and sign: RFC 8785 for the values that a statement can hold. Pure."""

from __future__ import annotations

import re
from typing import Any

from fable_exec.errors import InvalidRequest
from fable_exec.treedigest.forms import canonical_json

__all__ = ["canonical_bytes"]

_BEYOND_INTEGERS = 2**53
"""From here on a reader that has only binary floating point may round, and two integers become one."""
_SURROGATE = re.compile("[\ud800-\udfff]")


def canonical_bytes(value: Any) -> bytes:
    """The one way to write `value`: texts, integers, booleans, None, lists, and dicts with ASCII names.

    Raises:
        InvalidRequest: it holds anything else. Numbers with a fraction are left out on purpose: no two languages write all of
            them alike without work.
    """
    _require_plain(value)
    return canonical_json(value).encode()


def _require_plain(value: Any) -> None:
    if isinstance(value, dict):
        if not all(isinstance(name, str) and name.isascii() for name in value):
            raise InvalidRequest("a statement's members have ASCII names")  # others would be sorted in two ways
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            _require_plain(each)
    elif isinstance(value, str):
        if not value.isascii() and _SURROGATE.search(value):
            raise InvalidRequest(f"a statement cannot hold half a character: {value!a:.80}")
    elif isinstance(value, int):
        if not -_BEYOND_INTEGERS < value < _BEYOND_INTEGERS:
            raise InvalidRequest(f"a statement cannot hold an integer of {value.bit_length()} bits")
    elif value is not None:
        raise InvalidRequest(f"a statement cannot hold a {type(value).__name__}")

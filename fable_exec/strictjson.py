"""JSON that no two readers could take for two things, read within bounds. Pure.

Refused, each with a word of its own: a byte order mark, what is not UTF-8, trailing bytes, a member named twice, NaN and Infinity
however they are written, lone surrogates, and whatever would cost a reader more than its length says: depth, digits, values.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any

__all__ = [
    "MAX_DEPTH",
    "MAX_DOCUMENT_BYTES",
    "MAX_INTEGER_DIGITS",
    "MAX_VALUES",
    "JsonFault",
    "is_deeper",
    "parse_strict",
    "require_strict",
]

MAX_DOCUMENT_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 64
MAX_VALUES = 200_000
"""Arrays, objects and what is in them; some 4 MiB of short rows."""
MAX_INTEGER_DIGITS = 20
_MAX_NUMBER_CHARACTERS = 64
_BEYOND_INTEGERS = 10**MAX_INTEGER_DIGITS

_WHITE_SPACE = " \t\n\r"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BRACKET = re.compile(rb"[][{}]")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
"""One without its end too, so that bytes full of quotes are still walked once."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonFault(ValueError):
    """Why something is not strict JSON. `code` is a stable word; as text it is a sentence about "it"."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(code, sentence)
        self.code = code

    def __str__(self) -> str:
        return str(self.args[1])


def parse_strict(raw: bytes, max_bytes: int = MAX_DOCUMENT_BYTES) -> Any:
    """The value that `raw` holds: dict, list, str, int, float, bool or None.

    Raises:
        JsonFault: with code `too-long`, `byte-order-mark`, `not-utf8`, `not-json`, `trailing-bytes`, `duplicate-member`, or one
            of `require_strict`.
    """
    if len(raw) > max_bytes:
        raise JsonFault("too-long", f"it is longer than {max_bytes} bytes")
    if raw.startswith(_BYTE_ORDER_MARK):
        raise JsonFault("byte-order-mark", "it begins with a byte order mark")
    try:
        text = raw.decode("utf-8").strip(_WHITE_SPACE)
    except UnicodeDecodeError as error:
        raise JsonFault("not-utf8", f"it is not UTF-8 at byte {error.start}") from None
    _require_small(raw)
    try:
        value, end = _DECODER.raw_decode(text)
    except json.JSONDecodeError as error:
        raise JsonFault("not-json", f"it is not JSON: {error.msg.removesuffix(' at')} at line {error.lineno}") from None
    if end != len(text):
        raise JsonFault("trailing-bytes", "something follows after the value")
    require_strict(value)
    return value


def require_strict(value: Any) -> None:
    """Return exactly if `value` is what `parse_strict` could have returned.

    Raises:
        JsonFault: with code `too-deep`, `too-many-values`, `long-number`, `not-finite`, `lone-surrogate`, or `not-a-json-value`
            for another type, also for a name of a member that is no text.
    """
    waiting: list[tuple[Any, int]] = [(value, 1)]
    seen = 0
    while waiting:
        each, level = waiting.pop()
        seen += 1
        if type(each) is dict:
            inner = [*each, *each.values()]
            if not all(type(name) is str for name in each):
                raise _not_json("a name that is no text")
        elif type(each) is list:
            inner = each
        else:
            _require_plain(each)
            continue
        if level > MAX_DEPTH:
            raise _too_deep()
        if seen + len(waiting) + len(inner) > 2 * MAX_VALUES:  # names are among them
            raise _too_many()
        waiting += [(one, level + 1) for one in inner]


def _require_plain(value: Any) -> None:
    kind = type(value)
    if kind is str:
        if not value.isascii() and _SURROGATE.search(value):
            raise JsonFault("lone-surrogate", "a text in it holds half a character")
    elif kind is int:
        if not -_BEYOND_INTEGERS < value < _BEYOND_INTEGERS:
            raise _long_number()
    elif kind is float:
        if not math.isfinite(value):
            raise JsonFault("not-finite", "a number in it is NaN or infinite")
    elif value is not None and kind is not bool:
        raise _not_json(f"a {kind.__name__:.60}")


def is_deeper(raw: bytes, levels: int) -> bool:
    """Whether JSON that begins with `raw` is nested deeper than so many levels, before anybody has read it.

    The scanner of the standard library recurses once a level, up to a limit that embedders may have raised until the stack
    overflows.
    """
    if _opened(raw) <= levels:
        return False
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub(b"", raw)):
        depth += 1 if bracket in b"[{" else -1
        if depth > levels:
            return True
    return False


def _require_small(raw: bytes) -> None:
    if _separators(raw) > MAX_VALUES and _separators(_STRING.sub(b"", raw)) > MAX_VALUES:
        raise _too_many()
    if is_deeper(raw, MAX_DEPTH):
        raise _too_deep()


def _separators(raw: bytes) -> int:
    """One for each value, or more."""
    return _opened(raw) + raw.count(b",")


def _opened(raw: bytes) -> int:
    return raw.count(b"{") + raw.count(b"[")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise JsonFault("duplicate-member", f"it names the member {twice!a:.80} twice")
    return members


def _integer(digits: str) -> int:
    _require_short(digits)
    return int(digits)


def _number(digits: str) -> float:
    _require_short(digits)
    return float(digits)


def _require_short(digits: str) -> None:
    if len(digits) > _MAX_NUMBER_CHARACTERS:  # int() and float() take longer than linear time
        raise _long_number()


def _too_deep() -> JsonFault:
    return JsonFault("too-deep", f"it is nested more than {MAX_DEPTH} levels deep")


def _too_many() -> JsonFault:
    return JsonFault("too-many-values", f"it holds more than {MAX_VALUES} values")


def _long_number() -> JsonFault:
    return JsonFault("long-number", f"a number in it has more than {MAX_INTEGER_DIGITS} digits")


def _not_json(what: str) -> JsonFault:
    return JsonFault("not-a-json-value", f"it holds {what}, which JSON does not have")


_DECODER = json.JSONDecoder(object_pairs_hook=_members, parse_int=_integer, parse_float=_number)

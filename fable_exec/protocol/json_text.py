"""One line of JSON read strictly, with every bound kept while reading, not after.

Refused besides what is no JSON: NaN and Infinity, a member named twice in one object, more than MAX_DEPTH levels, more than
MAX_VALUES values, integers of more than MAX_INTEGER_DIGITS digits, numbers beyond a float. Lone surrogates in strings are left to
the rules of the members.

The structure is walked by the standard library's own Python scanner, because its C scanner recurses once a level with no bound
but the interpreter's, which an embedder may have raised until the stack overflows. Strings, which are nearly all of a large
request, are still read by C, once (ADR 0031). A line that has too few brackets and commas to break a bound, as nearly every one,
is walked by the C scanner too.
"""

from __future__ import annotations

import json
import json.decoder
import json.scanner
import math
from collections.abc import Callable
from typing import Any

from fable_exec.errors import InvalidJson, InvalidRequest

__all__ = ["MAX_DEPTH", "MAX_INTEGER_DIGITS", "MAX_VALUES", "parse_json"]

MAX_DEPTH = 16
MAX_VALUES = 100_000
MAX_INTEGER_DIGITS = 20
_MAX_NUMBER_CHARACTERS = 64

_Scan = Callable[[str, int], tuple[Any, int]]


def parse_json(line: bytes | bytearray | memoryview) -> Any:
    """The value that `line` holds.

    Raises:
        InvalidJson: it is not UTF-8 or not JSON.
        InvalidRequest: it is JSON beyond the bounds of this module.
    """
    try:
        text = str(line, "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidJson(f"the line is not UTF-8 at byte {error.start}") from None
    try:
        return (_PLAIN_DECODER if _cannot_break_a_bound(text) else _BoundedDecoder()).decode(text)
    except json.JSONDecodeError as error:
        raise InvalidJson(f"the line is not JSON: {error.msg.removesuffix(' at')} at character {error.pos}") from None


def _cannot_break_a_bound(text: str) -> bool:
    """Whether depth and number of values are within bounds however the brackets and commas stand; those in strings count too."""
    return text.count("{") + text.count("[") <= MAX_DEPTH and text.count(",") < MAX_VALUES - MAX_DEPTH


class _BoundedDecoder(json.JSONDecoder):
    """A decoder for one document: it counts levels and values while it reads."""

    def __init__(self) -> None:
        super().__init__(object_pairs_hook=_object, parse_int=_integer, parse_float=_number, parse_constant=_refuse_constant)
        self._depth = 0
        self._values_left = MAX_VALUES
        self._parse_object: Callable[..., tuple[Any, int]] = json.decoder.JSONObject  # type: ignore[attr-defined]  # json's own reader, which its stubs leave out
        self._parse_array: Callable[..., tuple[Any, int]] = json.decoder.JSONArray  # type: ignore[attr-defined]  # as above
        self.parse_object = self._object_one_deeper
        self.parse_array = self._array_one_deeper
        self.scan_once = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined]  # as above: the scanner that asks the two readers set above

    def _object_one_deeper(self, position: tuple[str, int], strict: bool, scan: _Scan, *rest: Any) -> tuple[Any, int]:
        self._enter()
        result = self._parse_object(position, strict, self._counting(scan), *rest)
        self._depth -= 1
        return result

    def _array_one_deeper(self, position: tuple[str, int], scan: _Scan, *rest: Any) -> tuple[Any, int]:
        self._enter()
        result = self._parse_array(position, self._counting(scan), *rest)
        self._depth -= 1
        return result

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidRequest(f"the request is nested more than {MAX_DEPTH} levels deep")

    def _counting(self, scan: _Scan) -> _Scan:
        def counted(text: str, position: int) -> tuple[Any, int]:
            self._values_left -= 1
            if self._values_left < 0:
                raise InvalidRequest(f"the request holds more than {MAX_VALUES} values")
            return scan(text, position)

        return counted


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise InvalidRequest("an object of the request names a member twice")
    return members


def _integer(digits: str) -> int:
    _refuse_foreign_digits(digits)
    if len(digits.lstrip("-")) > MAX_INTEGER_DIGITS:
        raise InvalidRequest(f"an integer of the request has more than {MAX_INTEGER_DIGITS} digits")
    return int(digits)


def _number(digits: str) -> float:
    _refuse_foreign_digits(digits)
    number = float(digits) if len(digits) <= _MAX_NUMBER_CHARACTERS else math.inf
    if not math.isfinite(number):
        raise InvalidRequest("a number of the request is too long or too large")
    return number


def _refuse_constant(word: str) -> None:
    raise InvalidJson(f"the line is not JSON: {word} is no number")


def _refuse_foreign_digits(digits: str) -> None:
    if not digits.isascii():  # the Python scanner of 3.11 takes every digit of Unicode for one, JSON does not
        raise InvalidJson("the line is not JSON: a number holds a digit that is not ASCII")


_PLAIN_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_number, parse_constant=_refuse_constant
)

"""What a value in a request must look like: one small function a kind of value.

A rule takes a value and the name of its member, and returns the value in its one form (a list becomes a tuple, an integer of
seconds a float) or raises InvalidRequest. Types are never bent: a bool is no number, a string is no list. The same rules hold for
requests that are built in Python and for requests that came over the wire. Rules know no policy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from fable_exec.errors import InvalidRequest
from fable_exec.outcome import display_text
from fable_exec.protocol.alternatives import alternatives

__all__ = [
    "MAX_ID_CHARACTERS",
    "MAX_TIMEOUT_SECONDS",
    "Rule",
    "argv",
    "count",
    "data",
    "digest",
    "environment",
    "flag",
    "handle",
    "identifier",
    "kind",
    "one_of",
    "optional",
    "line",
    "name_pattern",
    "path",
    "phrase",
    "shown",
    "text",
    "timeout",
    "waiting_time",
]

MAX_TIMEOUT_SECONDS = 3600.0
MAX_ID_CHARACTERS = 128
_MAX_SHOWN_CHARACTERS = 60

Rule: TypeAlias = Callable[[Any, str], Any]


def kind(value: object) -> str:
    """What `value` is, in the words of JSON where it has one."""
    if value is None:
        return "null"
    words = {
        bool: "a boolean",
        int: "an integer",
        float: "a number",
        str: "text",
        list: "a list",
        tuple: "a list",
        dict: "an object",
    }
    return words.get(type(value), type(value).__name__)


def shown(value: object) -> str:
    """`value` for a message: quoted, short and printable whatever it holds."""
    if not isinstance(value, str):
        return kind(value)
    cut = value[:_MAX_SHOWN_CHARACTERS]
    return display_text(f'"{cut}"') + ("…" if len(value) > len(cut) else "")


def optional(rule: Rule) -> Rule:
    """None, or what `rule` makes of anything else."""
    return lambda value, name: None if value is None else rule(value, name)


def text(value: Any, name: str) -> str:
    """A string that can be written as UTF-8."""
    return _encodable(value, name, "")


def _encodable(value: Any, name: str, advice: str) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"{name} must be text, not {kind(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidRequest(f"{name} holds a lone surrogate: {shown(value)}{advice}") from None
    return value


def path(value: Any, name: str) -> str:
    """A path that says something. Whether it may be used is decided where paths are parsed."""
    if not _encodable(value, name, "; a command can rename what has a name that is not UTF-8").strip():
        raise InvalidRequest(f"{name} must not be blank")
    return str(value)


def phrase(value: Any, name: str) -> str:
    """Text of at least one character."""
    if not text(value, name):
        raise InvalidRequest(f"{name} must not be empty")
    return str(value)


def line(value: Any, name: str) -> str:
    """Text of at least one character that a line of text can hold."""
    if "\n" in phrase(value, name):
        raise InvalidRequest(f"{name} holds a newline, and is looked for within single lines: it could never match")
    _without_nul(value, name)
    return str(value)


def name_pattern(value: Any, name: str) -> str:
    """A pattern for one name, which never holds a slash; braces hold alternatives."""
    if "/" in phrase(value, name):
        raise InvalidRequest(f"{name} holds a slash, and is about a file's name alone: it could never match; use path")
    _without_nul(value, name)
    alternatives(value, name)
    return str(value)


def argv(value: Any, name: str) -> tuple[str, ...]:
    """A program and its arguments. Arguments may be empty strings, the program may not."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidRequest(f"{name} must be a list of strings, not {kind(value)}")
    items = tuple(value)
    if not items:
        raise InvalidRequest(f"{name} must name a program")
    for position, item in enumerate(items):
        _without_nul(text(item, f"{name}[{position}]"), f"{name}[{position}]")
    if not items[0]:
        raise InvalidRequest(f"{name}[0] must not be empty")
    return items


def environment(value: Any, name: str) -> dict[str, str]:
    """Names and values that an environment can hold; a copy. Which names are allowed is the policy's matter."""
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{name} must be an object of strings, not {kind(value)}")
    for key, item in value.items():
        _without_nul(text(key, f"a name in {name}"), f"a name in {name}")
        if not key or "=" in key:
            raise InvalidRequest(f"{name} has a name that no variable can have: {shown(key)}")
        _without_nul(text(item, f"{name}[{shown(key)}]"), f"{name}[{shown(key)}]")
    return dict(value)


def _without_nul(value: str, name: str) -> None:
    if "\0" in value:
        raise InvalidRequest(f"{name} must not hold NUL")


def data(value: Any, name: str) -> bytes:
    """Bytes. (On the wire they are text; decoding has turned that into bytes before.)"""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise InvalidRequest(f"{name} must be bytes, not {kind(value)}")
    return bytes(value)


def flag(value: Any, name: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise InvalidRequest(f"{name} must be true or false, not {kind(value)}")
    return value


def count(value: Any, name: str) -> int:
    """A whole number from 1 up."""
    if type(value) is not int:
        raise InvalidRequest(f"{name} must be an integer, not {kind(value)}")
    if value < 1:
        raise InvalidRequest(f"{name} must be at least 1")
    return value


def timeout(value: Any, name: str) -> float:
    """Seconds, more than 0 and at most MAX_TIMEOUT_SECONDS."""
    seconds = _seconds(value, name)
    if not 0 < seconds <= MAX_TIMEOUT_SECONDS:
        raise InvalidRequest(f"{name} must be more than 0 and at most {MAX_TIMEOUT_SECONDS:g} seconds")
    return seconds


def waiting_time(value: Any, name: str) -> float:
    """Seconds to wait for something, 0 for not at all."""
    seconds = _seconds(value, name)
    if not 0 <= seconds <= MAX_TIMEOUT_SECONDS:
        raise InvalidRequest(f"{name} must be between 0 and {MAX_TIMEOUT_SECONDS:g} seconds")
    return seconds


def _seconds(value: Any, name: str) -> float:
    if type(value) not in (int, float):
        raise InvalidRequest(f"{name} must be a number of seconds, not {kind(value)}")
    try:
        seconds = float(value)
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds):
        raise InvalidRequest(f"{name} must be finite")
    return seconds


def digest(value: Any, name: str) -> str:
    """A SHA-256 in hexadecimal, in lower case."""
    digits = text(value, name).lower()
    if len(digits) != 64 or not set(digits) <= set("0123456789abcdef"):
        raise InvalidRequest(f"{name} must be the 64 hexadecimal digits of a SHA-256")
    return digits


def handle(value: Any, name: str) -> str:
    """The name of a background command, as `start_command` gave it."""
    if not 1 <= len(text(value, name)) <= MAX_ID_CHARACTERS:
        raise InvalidRequest(f"{name} must have 1 to {MAX_ID_CHARACTERS} characters")
    return str(value)


def identifier(value: Any, name: str) -> str | int:
    """The `id` of a request: an integer of 64 bits, or text of at most MAX_ID_CHARACTERS characters."""
    if type(value) is int:
        if not -(2**63) <= value < 2**63:
            raise InvalidRequest(f"{name} does not fit into 64 bits")
        return value
    if not isinstance(value, str):
        raise InvalidRequest(f"{name} must be text or an integer, not {kind(value)}")
    if len(text(value, name)) > MAX_ID_CHARACTERS:
        raise InvalidRequest(f"{name} must have at most {MAX_ID_CHARACTERS} characters")
    return value


def one_of(*words: str) -> Rule:
    """One of the given words."""

    def rule(value: Any, name: str) -> str:
        if not isinstance(value, str) or value not in words:
            raise InvalidRequest(f"{name} must be {' or '.join(map(shown, words))}, not {shown(value)}")
        return value

    return rule

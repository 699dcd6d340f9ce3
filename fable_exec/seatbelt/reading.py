"""From the text of a Seatbelt profile to its forms: lists, words and strings. Pure; it knows no rule.

Strings are read as JSON reads them, which is how this package writes them. What it does not understand it refuses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import attrs

from fable_exec.errors import PolicyError

__all__ = ["Form", "Quoted", "fault", "forms_of"]

_MOST_BYTES = 4 * 1024 * 1024
_DEEPEST = 32
_TOKEN = re.compile(r'(?P<space>[ \t\r\n]+|;[^\n]*)|(?P<mark>[()])|(?P<text>"(?:[^"\\\n]|\\.)*")|(?P<word>[^\s()";#]+)')


@attrs.frozen
class Quoted:
    """A string; a word is a plain `str`."""

    text: str


@attrs.frozen
class Form:
    """One list in parentheses, with the line that it begins on."""

    line: int
    items: tuple[str | Quoted | Form, ...]

    @property
    def head(self) -> str:
        """Its first word. Raises PolicyError where it has none."""
        if not self.items or not isinstance(self.items[0], str):
            raise fault(self.line, "a list must begin with a word")
        return self.items[0]


def fault(line: int, text: str) -> PolicyError:
    """What is wrong with a profile, and where."""
    return PolicyError.of([(f"line {line}", text)], "invalid Seatbelt profile")


def forms_of(data: bytes) -> tuple[Form, ...]:
    """The lists of a profile, in their order.

    Raises:
        PolicyError: it is no ASCII, too long, not balanced, nested too deeply, or holds something outside of a list.
    """
    if len(data) > _MOST_BYTES:
        raise fault(1, f"longer than {_MOST_BYTES} bytes")
    if not data.isascii():
        raise fault(1, "only ASCII is read")
    top: list[Form] = []
    open_lists: list[tuple[int, list[str | Quoted | Form]]] = []
    for line, token in _tokens(data.decode("ascii")):
        if token == "(":
            open_lists.append((line, []))
            if len(open_lists) > _DEEPEST:
                raise fault(line, "nested too deeply")
        elif not open_lists:
            raise fault(line, "stands outside of any list")
        elif token == ")":
            began, items = open_lists.pop()
            (open_lists[-1][1] if open_lists else top).append(Form(began, tuple(items)))
        else:
            open_lists[-1][1].append(token)
    if open_lists:
        raise fault(open_lists[0][0], "this list has no end")
    return tuple(top)


def _tokens(text: str) -> Iterator[tuple[int, str | Quoted]]:
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise fault(line, "a string without an end, or a form of the language that is not read here")
        token, at = found.group(), found.end()
        if found.lastgroup == "text":
            yield line, Quoted(_string(token, line))
        elif found.lastgroup != "space":
            yield line, token
        line += token.count("\n")


def _string(token: str, line: int) -> str:
    try:
        text: str = json.loads(token)
    except ValueError:
        raise fault(line, "a string that JSON does not read") from None
    return text

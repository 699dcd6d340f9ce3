"""Read a git configuration file character by character as git does. Pure text in, settings out; nothing is expanded or followed.

Git itself is never asked: it would read the very file. The syntax is that of git-config(1) and of git's own reader, down to
which characters are white space; tests/laterfiles compare with `git config --list`.
"""

from __future__ import annotations

import re
import string
from typing import NamedTuple

__all__ = ["Config", "Setting", "is_plain", "last_value", "parse", "written"]

_SPACE = " \t\n\r"
_LETTERS = frozenset(string.ascii_letters)
_KEY = frozenset(string.ascii_letters + string.digits + "-")
_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "\\": "\\", '"': '"'}
_NEEDS_NO_QUOTES = re.compile(r"[A-Za-z0-9/._:@+*-]+")
_BYTE_ORDER_MARK = "\ufeff"


class Setting(NamedTuple):
    """One `key = value`; section and key in lower case, the value None for a key alone, which means true."""

    section: str
    subsection: str | None
    key: str
    value: str | None

    @property
    def name(self) -> str:
        """As `git config --list` prints it."""
        middle = "" if self.subsection is None else f".{self.subsection}"
        return f"{self.section}{middle}.{self.key}" if self.section or middle else self.key


class Config(NamedTuple):
    """What a file says, up to `fault`: the line that git stops at, empty when it reads to the end."""

    settings: tuple[Setting, ...]
    fault: str


class _Bad(Exception):
    """Git calls this line bad."""


class _Reader:
    """Characters one by one; a line ends with LF or CR LF, and the end of the file ends one too."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next = 0
        self.line = 1

    @property
    def ended(self) -> bool:
        return self._next > len(self._text)

    def take(self) -> str:
        start, self._next = self._next, self._next + 1
        if start >= len(self._text):
            return "\n"
        character = self._text[start]
        if character == "\r" and self._text[start + 1 : start + 2] == "\n":
            self._next += 1
            character = "\n"
        self.line += character == "\n"
        return character


def parse(text: str) -> Config:
    """Every setting that git would see, in order."""
    reader = _Reader(text.removeprefix(_BYTE_ORDER_MARK))
    settings: list[Setting] = []
    section: tuple[str, str | None] = ("", None)
    try:
        while True:
            character = _significant(reader)
            if character == "":
                return Config(tuple(settings), "")
            if character == "[":
                section = _section(reader)
            elif character in _LETTERS:
                settings.append(Setting(*section, *_setting(reader, character)))
            else:
                raise _Bad
    except _Bad:
        return Config(tuple(settings), f"line {reader.line}")


def _significant(reader: _Reader) -> str:
    """The next character outside white space and comments; empty at the end."""
    comment = False
    while True:
        character = reader.take()
        if reader.ended:
            return ""
        if character == "\n":
            comment = False
        elif character in "#;":
            comment = True
        elif not comment and character not in _SPACE:
            return character


def _section(reader: _Reader) -> tuple[str, str | None]:
    name = ""
    while True:
        character = reader.take()
        if reader.ended:
            raise _Bad
        if character == "]":
            break
        if character in _SPACE:
            return name.lower(), _subsection(reader, character)
        if character not in _KEY and character != ".":
            raise _Bad
        name += character
    if not name:
        raise _Bad
    section, dot, subsection = name.lower().partition(".")
    return section, subsection if dot else None


def _subsection(reader: _Reader, character: str) -> str:
    while character in _SPACE:
        if character == "\n":
            raise _Bad
        character = reader.take()
    if character != '"':
        raise _Bad
    name = ""
    while (character := reader.take()) != '"':
        if character == "\\":
            character = reader.take()
        if character == "\n":
            raise _Bad
        name += character
    if reader.take() != "]":
        raise _Bad
    return name


def _setting(reader: _Reader, first: str) -> tuple[str, str | None]:
    name = first
    while True:
        character = reader.take()
        if reader.ended or character not in _KEY:
            break
        name += character
    while character in " \t":
        character = reader.take()
    if character == "\n":
        return name.lower(), None
    if character != "=":
        raise _Bad
    return name.lower(), _value(reader)


def _value(reader: _Reader) -> str:
    """Quotes removed, escapes resolved, comment and outer space cut."""
    out: list[str] = []
    quoted, comment, spaces = False, False, 0
    while True:
        character = reader.take()
        if character == "\n":
            if quoted:
                raise _Bad
            return "".join(out)
        if comment:
            continue
        if character in _SPACE and not quoted:
            spaces += bool(out)
            continue
        if character in "#;" and not quoted:
            comment = True
            continue
        out.append(" " * spaces)
        spaces = 0
        if character == '"':
            quoted = not quoted
        elif character == "\\":
            _escape(reader, out)
        else:
            out.append(character)


def _escape(reader: _Reader, out: list[str]) -> None:
    character = reader.take()
    if character == "\n":
        return
    if character not in _ESCAPES:
        raise _Bad
    out.append(_ESCAPES[character])


_PLAIN_LINE = re.compile(
    r"""[ \t]*
    (?: \[[A-Za-z0-9.-]+(?:[ \t]+"(?:[^"\\\x00-\x1f\x7f]|\\["\\])*")?\][ \t]*
      | [A-Za-z][A-Za-z0-9-]*[ \t]*(?:=(?:[^"\\\#;\x00-\x08\x0a-\x1f\x7f]|\\["\\ntb]|"(?:[^"\\\x00-\x1f\x7f]|\\["\\ntb])*")*)?
      | )
    (?:[\#;][^\x00-\x08\x0a-\x1f\x7f]*)?""",
    re.VERBOSE,
)


def is_plain(text: str) -> bool:
    """Whether it is written the way git writes: one thing a line, nothing continued. Other readers then understand the same."""
    return all(_PLAIN_LINE.fullmatch(line.removesuffix("\r")) is not None for line in text.split("\n"))


def written(settings: tuple[Setting, ...]) -> str:
    """The settings as a plain file."""
    lines: list[str] = []
    last: tuple[str, str | None] | None = None
    for setting in settings:
        if (setting.section, setting.subsection) != last:
            last = (setting.section, setting.subsection)
            lines.append(_header(*last))
        lines.append(f"\t{setting.key}" if setting.value is None else f"\t{setting.key} = {_quoted(setting.value)}")
    return "\n".join([*lines, ""])


def _header(section: str, subsection: str | None) -> str:
    if subsection is None:
        return f"[{section}]"
    quoted = subsection.replace("\\", "\\\\").replace('"', '\\"')
    return f'[{section} "{quoted}"]'


def _quoted(text: str) -> str:
    if _NEEDS_NO_QUOTES.fullmatch(text):
        return text
    for character, letter in (("\\", "\\"), ('"', '"'), ("\n", "n"), ("\t", "t"), ("\b", "b")):
        text = text.replace(character, "\\" + letter)
    return f'"{text}"'


def last_value(config: Config, section: str, key: str) -> str | None:
    """The value in force of a setting without subsection, or None."""
    values = [each.value for each in config.settings if (each.section, each.subsection, each.key) == (section, None, key)]
    return values[-1] if values else None

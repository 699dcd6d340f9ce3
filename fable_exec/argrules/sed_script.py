"""A scanner for sed scripts that accepts what it can prove to do no more than edit the text that passes.

Commands that run (`e`, the `e` flag), write (`w`, `W`, the `w` flag) or read other files (`r`, `R`) are refused, and so is
everything the scanner does not know. Where GNU sed and the BSD seds read a script differently, and a difference could hide a
command, the script is refused too. (sed(1), GNU sed manual "Commands", POSIX.1-2017 sed.)
"""

from __future__ import annotations

__all__ = ["sed_fault"]

_LONGEST = 65_536
_PLAIN = frozenset("=dDgGhHnNpPxzF")
_NUMBERED = frozenset("lLqQ")
_REFUSED = {
    "e": "runs a command",
    "w": "writes a file",
    "W": "writes a file",
    "r": "reads another file",
    "R": "reads another file",
}
_LABEL = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_DIGITS = frozenset("0123456789")


class _Unproved(Exception):
    pass


def sed_fault(script: str) -> str:
    """ "" when the script only edits, else what is wrong with it."""
    if not script.strip():
        return "is an empty script; some seds would take the next argument for it"
    if len(script) > _LONGEST:
        return f"is a script of more than {_LONGEST} characters"
    try:
        _Scanner(script).scan()
    except _Unproved as error:
        return f"is a sed script that {error}"
    return ""


class _Scanner:
    def __init__(self, script: str) -> None:
        self.script = script
        self.at = 0
        self.labels = False
        self.joined_lines = False

    def peek(self) -> str:
        return self.script[self.at : self.at + 1]

    def skip(self, characters: frozenset[str] | str) -> None:
        while self.at < len(self.script) and self.script[self.at] in characters:
            self.at += 1

    def scan(self) -> None:
        while True:
            self.skip(" \t\n;}")
            if self.at >= len(self.script):
                break
            self.command()
        if self.labels and self.joined_lines:
            # BSD sed reads a label up to the end of the line: what we take for an escaped line end could be a new command.
            raise _Unproved("has labels and escaped line ends, which seds read differently")

    def command(self) -> None:
        self.addresses()
        self.skip(" \t")
        name = self.peek()
        self.at += 1
        if name in _REFUSED:
            raise _Unproved(f"holds the command {name}, which {_REFUSED[name]}")
        if name == "{":
            return
        if name == "#":
            self.at = self.line_end()
        elif name and name in _PLAIN:
            self.end()
        elif name and name in _NUMBERED:
            self.skip(" \t")
            self.skip(_DIGITS)
            self.end()
        elif name == "s":
            self.substitution()
        elif name == "y":
            mark = self.mark()
            self.delimited(mark, pattern=True)
            self.delimited(mark, pattern=False)
            self.end()
        elif name and name in "aic":
            self.text()
        elif name and name in "btT:":
            self.label()
        else:
            raise _Unproved(f"holds {name!a}, which is no command known here" if name else "ends within a command")

    def addresses(self) -> None:
        if self.address():
            self.skip(" \t")
            if self.peek() == ",":
                self.second_address()
        while self.peek() == "!":
            self.at += 1
            self.skip(" \t")

    def second_address(self) -> None:
        self.at += 1
        self.skip(" \t")
        if self.peek() in ("+", "~"):
            self.at += 1
        if not self.address():
            raise _Unproved("has half an address range")
        self.skip(" \t")

    def address(self) -> bool:
        first = self.peek()
        if first == "$":
            self.at += 1
            return True
        if first and first in _DIGITS:
            self.skip(_DIGITS)
            if self.peek() == "~":
                self.at += 1
                self.skip(_DIGITS)
            return True
        if first not in ("/", "\\"):
            return False
        self.at += 1
        mark = "/" if first == "/" else self.mark()
        self.delimited(mark, pattern=True)
        self.skip("IM")
        return True

    def mark(self) -> str:
        mark = self.peek()
        if mark in ("", "\n", "\\") or not mark.isascii():
            raise _Unproved("has no usable delimiter")
        self.at += 1
        return mark

    def delimited(self, mark: str, *, pattern: bool) -> None:
        start = self.at
        while (character := self.peek()) != mark:
            if character in ("", "\n"):
                raise _Unproved("has an expression without its end")
            if character == "\\":
                self.at += 1
                if self.peek() == "\n":
                    if pattern:
                        raise _Unproved("has a line end within an expression")
                    self.joined_lines = True
            self.at += 1
        if pattern and _ends_in_brackets(self.script[start : self.at]):
            # GNU sed ends the expression at the delimiter, BSD sed reads on to the bracket.
            raise _Unproved("has its delimiter within brackets, which seds read differently")
        self.at += 1

    def substitution(self) -> None:
        mark = self.mark()
        self.delimited(mark, pattern=True)
        self.delimited(mark, pattern=False)
        self.skip(_DIGITS | frozenset("gpiImM"))
        if self.peek() == "e":
            raise _Unproved("holds the flag e of s, which runs a command")
        if self.peek() == "w":
            raise _Unproved("holds the flag w of s, which writes a file")
        self.end()

    def text(self) -> None:
        while True:
            line = self.script[self.at : self.line_end()]
            self.at = self.line_end() + 1
            if (len(line) - len(line.rstrip("\\"))) % 2 == 0:
                return
            if self.at >= len(self.script):
                raise _Unproved("ends in a backslash and would go on in another argument")
            self.joined_lines = True

    def label(self) -> None:
        self.labels = True
        self.skip(" \t")
        self.skip(_LABEL)
        self.skip(" \t")
        if self.peek() not in ("", "\n", ";"):
            raise _Unproved("has a label with unusual characters")

    def end(self) -> None:
        self.skip(" \t")
        if self.peek() not in ("", "\n", ";", "}", "#"):
            raise _Unproved(f"has {self.peek()!a} where a command should end")

    def line_end(self) -> int:
        found = self.script.find("\n", self.at)
        return len(self.script) if found < 0 else found


def _ends_in_brackets(pattern: str) -> bool:
    at = 0
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 2
        elif pattern[at] == "[":
            at = _bracket_end(pattern, at)
            if at < 0:
                return True
        else:
            at += 1
    return False


def _bracket_end(pattern: str, at: int) -> int:
    at += 1
    if pattern[at : at + 1] == "^":
        at += 1
    if pattern[at : at + 1] == "]":
        at += 1
    while at < len(pattern):
        if pattern[at] == "[" and pattern[at + 1 : at + 2] in (":", ".", "="):
            end = pattern.find(pattern[at + 1] + "]", at + 2)
            if end < 0:
                return -1
            at = end + 2
        elif pattern[at] == "]":
            return at + 1
        else:
            at += 1
    return -1

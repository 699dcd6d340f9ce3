"""Shell text that is nothing but plain commands, taken apart; everything else a shell could do is refused.

Plain: words of ordinary characters, single quotes, double quotes without `$`, backquote and backslash, commands joined by
`;`, a newline, `|`, `&&` or `||`, and redirections to the null device. No variables, substitutions, patterns, assignments,
functions, loops or files. (POSIX.1-2017, Shell Command Language, sections 2.2 to 2.10.)
"""

from __future__ import annotations

__all__ = ["NotPlain", "plain_commands"]

_LONGEST = 16_384
_SINKS = ("2>&1", "2>/dev/null", ">/dev/null", "1>/dev/null", "&>/dev/null", "</dev/null", "2> /dev/null", "> /dev/null")
_JOINERS = ("&&", "||", "|", ";", "\n")
_SPECIAL = frozenset("$`(){}<>*?[]~!#&\\\0\r")
_RESERVED = frozenset(
    (
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "do",
        "done",
        "case",
        "esac",
        "while",
        "until",
        "for",
        "in",
        "function",
        "select",
        "coproc",
    )
)


class NotPlain(Exception):
    """The text is more than plain commands; the message says what it holds."""


def plain_commands(text: str) -> list[list[str]]:
    """The commands of `text`, each as its words. Raises NotPlain."""
    if len(text) > _LONGEST:
        raise NotPlain(f"is longer than {_LONGEST} characters")
    commands: list[list[str]] = [[]]
    at = 0
    while at < len(text):
        if text[at] in " \t":
            at += 1
        elif joiner := _match(text, at, _JOINERS):
            _join(commands, joiner)
            at += len(joiner)
        elif sink := _sink(text, at):
            at += len(sink)
        else:
            at = _word(text, at, commands[-1])
    if not commands[-1]:
        commands.pop()
        if not commands or text.rstrip(" \t\n").endswith(("&", "|")):
            raise NotPlain("ends where a command should follow")
    return commands


def _join(commands: list[list[str]], joiner: str) -> None:
    if commands[-1]:
        commands.append([])
    elif joiner != "\n":
        raise NotPlain(f"has {joiner} where a command should stand")


def _match(text: str, at: int, candidates: tuple[str, ...]) -> str:
    return next((candidate for candidate in candidates if text.startswith(candidate, at)), "")


def _sink(text: str, at: int) -> str:
    found = _match(text, at, _SINKS)
    follows = text[at + len(found) : at + len(found) + 1]
    return found if found and follows in ("", " ", "\t", "\n", ";", "|") else ""


def _word(text: str, at: int, words: list[str]) -> int:
    start = at
    parts: list[str] = []
    while at < len(text) and text[at] not in " \t\n;|&":
        if text[at] in "'\"":
            at = _quoted(text, at, parts)
            continue
        if text[at] in _SPECIAL:
            raise NotPlain(f"holds {text[at]!a} outside quotes")
        if text[at] == "=" and not words:
            raise NotPlain("sets a variable")
        parts.append(text[at])
        at += 1
    if at < len(text) and text[at] == "&" and not text.startswith("&&", at):
        raise NotPlain("holds '&' outside quotes")
    word = "".join(parts)
    if not words and text[start:at] in _RESERVED:
        raise NotPlain(f"uses the shell's word {word}")
    words.append(word)
    return at


def _quoted(text: str, at: int, parts: list[str]) -> int:
    mark = text[at]
    end = text.find(mark, at + 1)
    if end < 0:
        raise NotPlain("has a quote without its end")
    inside = text[at + 1 : end]
    if mark == '"' and any(special in inside for special in "$`\\!"):
        raise NotPlain("expands something within double quotes")
    parts.append(inside)
    return end + 1

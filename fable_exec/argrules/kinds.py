"""What a value or an operand may be: the named kinds of a rule file, and how the file makes its own from them.

A check is total, takes time in proportion to the text, and uses no regular expression: a rule file cannot make judging slow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fable_exec.argrules.awk_program import awk_fault
from fable_exec.argrules.paths import inside_fault, read_fault, removed_fault, written_fault
from fable_exec.argrules.sed_script import sed_fault
from fable_exec.argrules.shell_words import NotPlain, plain_commands
from fable_exec.argrules.tables import Kind, Place

__all__ = ["KINDS", "derived_kind", "kind_named", "word_fault"]

_OPERATORS = frozenset(
    {";", ";;", "&&", "||", "|", "&", "|&", ">", ">>", "<", "<<", "<<<", ">|", "&>", "2>", "2>>", "2>&1", "1>&2"}
)
_OPERATOR_BEGINS = ("$(", "`", "<(", ">(", "2>", "&>", ">/", ">&")
# hyphens, dashes, the minus sign, and their wide and small forms
_DASHES = frozenset("\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212\u2796\u2e3a\u2e3b\ufe58\ufe63\uff0d")
_LARGEST = 10**18
_UNITS = frozenset("bcwkKMGTPEZYRQB")
_MODE = frozenset("ugoarwxX+-=,")


def word_fault(text: str, place: Place) -> str:
    """For one ordinary word: visible characters, and nothing that only a shell would understand."""
    if not text.isprintable():
        return "contains a control or invisible character"
    if text[:1] in _DASHES:
        return f"begins with {text[0]!a}, which looks like a dash and is none; type an ASCII hyphen"
    if text[:1] == "\\":
        return "begins with a backslash as if a shell read it; arguments are passed as they are"
    if text in _OPERATORS or text.startswith(_OPERATOR_BEGINS):
        return "is shell syntax, and no shell reads it; run one command at a time"
    return ""


def _text(text: str, place: Place) -> str:
    return ""


def _path(check: Callable[[str, Place], str]) -> Callable[[str, Place], str]:
    def fault(text: str, place: Place) -> str:
        if not text:
            return "is empty"
        return word_fault(text, place) or check(text, place)

    return fault


def _integer(low: int, high: int) -> Callable[[str, Place], str]:
    def fault(text: str, place: Place) -> str:
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
            return "must be an integer"
        return "" if low <= int(text) <= high else f"must be from {low} to {high}"

    return fault


def _number(text: str, place: Place) -> str:
    digits = text.removeprefix("-").replace(".", "", 1)
    return "" if digits.isascii() and digits.isdigit() and len(digits) <= 18 else "must be a number"


def _size(text: str, place: Place) -> str:
    rest = text.lstrip("+-").lstrip("0123456789")
    plain = len(text) <= 24 and len(rest) <= 3 and all(unit in _UNITS or unit == "i" for unit in rest)
    return "" if plain and text[:1] and text.lstrip("+-")[:1].isdigit() else "must be a number, with a unit if need be"


def _duration(text: str, place: Place) -> str:
    return (
        _number(text.rstrip("smhd") if text[-1:] in "smhd" else text, place)
        and "must be a number of seconds, or with s, m, h or d"
    )


def _mode(text: str, place: Place) -> str:
    if text.isascii() and text.isdigit():
        return "" if len(text) == 3 or (len(text) == 4 and text[0] == "0") else "must be three octal digits; no set-id bits"
    return "" if text and all(character in _MODE for character in text) else "must be a mode without set-id bits"


def _shell(text: str, place: Place) -> str:
    try:
        plain_commands(text)
    except NotPlain as error:
        return f"is shell text that {error}; only plain commands joined by ; | && || can be judged"
    return ""


def _scanned(scan: Callable[[str], str]) -> Callable[[str, Place], str]:
    return lambda text, place: scan(text)


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("text", _text, free=True),
        Kind("word", word_fault),
        Kind("path", _path(read_fault)),
        Kind("inside", _path(inside_fault)),
        Kind("written", _path(written_fault), writes=True),
        Kind("removed", _path(removed_fault), writes=True),
        Kind("integer", _integer(-_LARGEST, _LARGEST), free=True),
        Kind("number", _number, free=True),
        Kind("size", _size, free=True),
        Kind("duration", _duration),
        Kind("mode", _mode),
        Kind("sed", _scanned(sed_fault)),
        Kind("awk", _scanned(awk_fault)),
        Kind("shell", _shell),
    )
}
"""The kinds every rule file may use by name."""


def kind_named(name: str, own: Mapping[str, Kind]) -> Kind:
    """The kind a rule file means by `name`: one of its own, a built-in one, `integer:LOW..HIGH` or `choice:a|b`.

    Raises ValueError for a name that is none.
    """
    if name in own:
        return own[name]
    if name in KINDS:
        return KINDS[name]
    head, _, rest = name.partition(":")
    if head == "integer":
        low, dots, high = rest.partition("..")
        if dots and _is_integer(low) and (_is_integer(high) or not high):
            return Kind(name, _integer(int(low), int(high or _LARGEST)), free=int(low) < 0)
    if head == "choice" and rest and all(rest.split("|")):
        return derived_kind(name, KINDS["word"], choices=rest.split("|"))
    raise ValueError(f"no kind of value is called {name!a}")


def derived_kind(
    name: str,
    base: Kind,
    *,
    choices: Sequence[str] = (),
    prefixes: Sequence[str] = (),
    also: Sequence[str] = (),
    not_choices: Sequence[str] = (),
    not_prefixes: Sequence[str] = (),
    not_containing: Sequence[str] = (),
) -> Kind:
    """`base` with more conditions: one of `choices` or beginning with one of `prefixes`; not one of, beginning with, containing.

    `also` are words that are taken whatever `base` says.
    """
    taken, refused = frozenset(also), frozenset(not_choices)
    words, begins, ends_out, holds_out = frozenset(choices), tuple(prefixes), tuple(not_prefixes), tuple(not_containing)

    def fault(text: str, place: Place) -> str:
        if text in taken:
            return ""
        if (words or begins) and text not in words and not (begins and text.startswith(begins)):
            return f"must be one of {', '.join([*choices, *(f'{begin}…' for begin in begins)])}"
        if text in refused:
            return f"must not be {text!a}"
        if ends_out and text.startswith(ends_out):
            return f"must not begin with {' or '.join(ends_out)}"
        for part in holds_out:
            if part in text:
                return f"must not contain {part!a}"
        return base.check(text, place)

    return Kind(name, fault, writes=base.writes, free=base.free)


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() and len(text) < 19

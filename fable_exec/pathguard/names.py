"""The rules for one name of a path, per profile, in their fixed order. Pure: text in, reason word out."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

__all__ = ["has_control", "portable_fault", "windows_fault"]

Rule = Callable[[str], bool]

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_LINE_SEPARATORS = re.compile("[\u2028\u2029]")
_WINDOWS_ILLEGAL = re.compile('[<>"|?*]')
_REMAPPED_PRIVATE_USE = re.compile("[\uf000-\uf0ff]")

# The superscript digits count as digits here since Windows maps COM¹ to the device as well.
_RESERVED_STEM = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|clock\$|(?:com|lpt)[0-9¹²³])\Z")

# One to six characters, "~", digits without a leading zero, at most eight in all, and an extension of at most three.
_SHORT_NAME = re.compile(r"(?=[^.]{3,8}(?:\.|\Z))[^\s.:/\\]{1,6}~[1-9][0-9]*(?:\.[^\s.:/\\]{1,3})?\Z")


def has_control(name: str) -> bool:
    """Whether the name holds a character of category Cc, which POSIX.1-2024 lets a system refuse at creation."""
    return _CONTROL.search(name) is not None


def _is_control_or_line(name: str) -> bool:
    return has_control(name) or _LINE_SEPARATORS.search(name) is not None


def _has_noncharacter(name: str) -> bool:
    return any(ord(character) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(character) <= 0xFDEF for character in name)


def _has_ignorable(name: str) -> bool:
    return any(unicodedata.category(character) == "Cf" for character in name)


def _has_remapped_private_use(name: str) -> bool:
    return _REMAPPED_PRIVATE_USE.search(name) is not None


def _is_not_nfc(name: str) -> bool:
    return not unicodedata.is_normalized("NFC", name)


def _has_colon(name: str) -> bool:
    return ":" in name


def _has_windows_illegal(name: str) -> bool:
    return _WINDOWS_ILLEGAL.search(name) is not None


def _has_edge_space(name: str) -> bool:
    return name[0].isspace() or name[-1].isspace()


def _has_trailing_space(name: str) -> bool:
    # Windows drops plain spaces at the end only; other white space and leading spaces stay.
    return name[-1] == " "


def _has_trailing_dot(name: str) -> bool:
    return name[-1] == "."


def _is_reserved(name: str) -> bool:
    # Windows looks at the stem before the first dot or colon without the spaces around it: "NUL .txt" is the device.
    stem = re.split("[.:]", name, maxsplit=1)[0].strip(" ").lower()
    return _RESERVED_STEM.match(stem) is not None


def _is_short_name(name: str) -> bool:
    return _SHORT_NAME.match(name) is not None


_WINDOWS_RULES: tuple[tuple[str, Rule], ...] = (
    ("control", has_control),
    ("colon", _has_colon),
    ("win-illegal", _has_windows_illegal),
    ("edge-space", _has_trailing_space),
    ("trailing-dot", _has_trailing_dot),
    ("reserved-name", _is_reserved),
    ("short-name", _is_short_name),
)

_PORTABLE_RULES: tuple[tuple[str, Rule], ...] = (
    ("control", _is_control_or_line),
    ("noncharacter", _has_noncharacter),
    ("ignorable", _has_ignorable),
    ("private-use", _has_remapped_private_use),
    ("not-nfc", _is_not_nfc),
    ("colon", _has_colon),
    ("win-illegal", _has_windows_illegal),
    ("edge-space", _has_edge_space),
    ("trailing-dot", _has_trailing_dot),
    ("reserved-name", _is_reserved),
    ("short-name", _is_short_name),
)

# Nothing in these can break a rule but the last two, which need a look at the stem or a "~".
_PLAIN = re.compile(r"[A-Za-z0-9_.-]*[A-Za-z0-9_-]\Z")


def portable_fault(name: str) -> str | None:
    """The first portable rule that `name` breaks, or None."""
    if _PLAIN.match(name):
        return "reserved-name" if _is_reserved(name) else None
    return _first_fault(name, _PORTABLE_RULES)


def windows_fault(name: str) -> str | None:
    """The first rule of a Windows volume that `name` breaks, or None."""
    return _first_fault(name, _WINDOWS_RULES)


def _first_fault(name: str, rules: tuple[tuple[str, Rule], ...]) -> str | None:
    return next((reason for reason, breaks in rules if breaks(name)), None)

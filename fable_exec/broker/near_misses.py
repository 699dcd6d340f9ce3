"""Why a text that somebody read in a file is not in its bytes: the differences that cannot be seen.

Pure, and for words only: nothing is replaced that is not there byte for byte.
"""

from __future__ import annotations

import unicodedata

__all__ = ["near_miss", "one_form"]

_MOST_BYTES = 2 * 1024 * 1024
"""More is not looked through a second time."""
_PLAIN_PUNCTUATION = str.maketrans("\u2018\u2019\u201c\u201d\u2010\u2011\u2012\u2013\u2014\u2212", "''\"\"------")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def near_miss(content: bytes, wanted: bytes) -> str:
    """How `content`, which does not hold `wanted`, holds it otherwise, if it does, and what to do, for the end of a message."""
    return (_miss(content, wanted) if len(content) <= _MOST_BYTES else "") or "; read it again"


def _miss(content: bytes, wanted: bytes) -> str:
    if _one_ending(wanted) in _one_ending(content):
        return "; it is with other line ends: give them as the file has them (CRLF is \\r\\n)"
    if _one_space(wanted) in _one_space(content):
        return "; it is with other white space: give tabs, spaces and empty lines as the file has them"
    if content.startswith(_UTF_16):
        return "; the file is UTF-16: give the bytes"
    text, wanted_text = _decoded(content), _decoded(wanted)
    if text is None or wanted_text is None:
        return "; the file is not UTF-8: give the bytes" if text is None else ""
    if one_form(wanted_text) in one_form(text):
        return "; it is in other Unicode characters that look alike: give them as the file has them"
    return ""


def _one_ending(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _one_space(data: bytes) -> bytes:
    return b" ".join(data.split())


def one_form(text: str) -> str:
    """`text` with one kind of space, quote and dash, in one normal form: what looks alike is equal."""
    return " ".join(unicodedata.normalize("NFKC", text).translate(_PLAIN_PUNCTUATION).split())


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None

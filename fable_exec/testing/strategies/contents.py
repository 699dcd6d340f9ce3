"""Contents of files, made of what gets lost where bytes are taken for text."""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = ["file_contents"]

_PIECES = st.sampled_from(
    [
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xc3\xa9",
        b"\x1a",
        b" ",
        b"\t",
        b"text",
        b"\xe6\xbc\xa2",
        b"x" * 5000,
    ]
)


def file_contents() -> st.SearchStrategy[bytes]:
    """Any bytes, up to some 40 000: line ends of every kind, NUL, bytes that are no UTF-8, a byte order mark, nothing at all."""
    return st.lists(_PIECES, max_size=8).map(b"".join) | st.binary(max_size=200)

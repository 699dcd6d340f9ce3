"""Streams of lines, and the ways in which a pipe may cut them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from hypothesis import strategies as st

__all__ = ["frame_streams", "splits"]

_LONGEST_BYTE_BY_BYTE = 1000
_PIECES = st.sampled_from([b"a", b"{}", b"\n", b"\r", b" ", b"\xff", b"long-long-long"])


def frame_streams() -> st.SearchStrategy[bytes]:
    """Bytes as a hostile peer may send them: frames, blank lines, half frames, what is no UTF-8."""
    return st.one_of(st.lists(_PIECES, max_size=40).map(b"".join), st.binary(max_size=200))


def splits(stream: bytes, *, most: int = 12) -> st.SearchStrategy[list[bytes]]:
    """The pieces in which `stream` may arrive, in order, none of them empty: whole, cut up to `most` times, or byte by byte.

    One of more than 1000 bytes is not cut byte by byte.
    """
    cut = st.lists(st.integers(0, len(stream)), max_size=most).map(lambda places: _cut(stream, places))
    if len(stream) > _LONGEST_BYTE_BY_BYTE:
        return cut
    return st.one_of(cut, cut, cut, st.just(_cut(stream, range(len(stream)))))


def _cut(stream: bytes, places: Iterable[int]) -> list[bytes]:
    at = sorted({0, len(stream), *places})
    return [stream[start:end] for start, end in itertools.pairwise(at)]

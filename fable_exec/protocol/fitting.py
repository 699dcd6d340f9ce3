"""Cutting an answer until its encoded form fits: output first to lose bytes, never its count; lists next to lose their ends.

Sizes are of the JSON text in UTF-8, where one byte of output can become six (ADR 0033). Most answers are far below the bound,
which a multiplication proves; only the others are measured.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from fable_exec.outcome import Captured
from fable_exec.protocol.requests import Encoding

__all__ = ["encoded_size", "fit_items", "fit_streams", "written"]

_GROWTH = 6  # a control character becomes six characters of JSON; U+FFFD for one bad byte is three
_MARK_BYTES = 64  # the quotes and the line that counts what is missing


def written(captured: Captured, encoding: Encoding) -> str:
    """`captured` as the text that goes on the wire."""
    return base64.b64encode(captured.raw).decode("ascii") if encoding == "base64" else captured.text()


def encoded_size(value: Any) -> int:
    """How many bytes `value` takes on the wire."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))


def fit_streams(stdout: Captured, stderr: Captured, encoding: Encoding, room: int) -> tuple[Captured, Captured]:
    """Both streams, cut until together they take at most `room` bytes on the wire. The smaller one is spared first."""
    if (len(stdout.raw) + len(stderr.raw)) * _GROWTH + 2 * _MARK_BYTES <= room:
        return stdout, stderr
    sizes = [_stream_size(stream, encoding) for stream in (stdout, stderr)]
    if sum(sizes) <= room:
        return stdout, stderr
    first = min(sizes[0], max(room // 2, room - sizes[1]))
    return _fit(stdout, encoding, first), _fit(stderr, encoding, max(room - first, 0))


def _stream_size(captured: Captured, encoding: Encoding) -> int:
    return encoded_size(written(captured, encoding))


def _fit(captured: Captured, encoding: Encoding, room: int) -> Captured:
    """The longest cut that takes at most `room` bytes. Found by halving, which needs at most some twenty tries."""
    if _stream_size(captured, encoding) <= room:
        return captured
    fitting, beyond = 0, len(captured.raw)
    while beyond - fitting > max(1, fitting >> 8):  # within half a percent is near enough
        middle = (fitting + beyond) // 2
        if _stream_size(_kept(captured, middle), encoding) <= room:
            fitting = middle
        else:
            beyond = middle
    return _kept(captured, fitting)


def _kept(captured: Captured, size: int) -> Captured:
    """`captured` with only `size` bytes: of the head's beginning and the tail's end, in the proportion that they had."""
    if not captured.tail:
        return Captured(head=captured.head[:size], total_bytes=captured.total_bytes)
    of_tail = min(size * len(captured.tail) // len(captured.raw), len(captured.tail))
    tail = captured.tail[len(captured.tail) - of_tail :]
    return Captured(head=captured.head[: size - of_tail], tail=tail, total_bytes=captured.total_bytes)


def fit_items(items: Sequence[Any], room: int) -> list[Any]:
    """The first of `items` that together take at most `room` bytes on the wire, brackets and commas included."""
    used = 2
    kept = []
    for item in items:
        used += encoded_size(item) + 1
        if used > room:
            break
        kept.append(item)
    return kept

"""Files as deepagents shows them to a model: windows of lines, media in base64; and what an edit replaces. Pure.

Lines end as on Unix here, whatever ends them in the file, which an edit leaves as it is.
"""

from __future__ import annotations

import base64
from pathlib import PurePosixPath
from typing import Any

import attrs

from fable_exec.errors import InvalidRequest
from fable_exec.protocol import InspectResult

__all__ = ["MAX_BINARY_BYTES", "MEDIA_ENDINGS", "Answer", "as_lines_end_in", "encoded", "is_shown_as_text", "window"]

MAX_BINARY_BYTES = 500 * 1024
"""What is no text is shown up to this size; deepagents has the same number."""

MEDIA_ENDINGS = frozenset(
    ".3gpp .aac .aiff .avi .flac .flv .gif .heic .heif .jpeg .jpg .mkv .mov .mp3 .mp4 .mpeg .mpg .ogg .pdf .png .ppt .pptx "
    ".wav .webm .webp .wmv".split()
)
"""Endings by which deepagents takes what it is given for a medium in base64, whatever the file holds."""

Answer = dict[str, Any]
"""The members of one of deepagents' answers."""


def is_shown_as_text(found: InspectResult) -> bool:
    """Whether a file is one of text, by its name and by what was read of it. An empty one always is."""
    if found.data and PurePosixPath(found.path).suffix.lower() in MEDIA_ENDINGS:
        return False
    try:
        _whole_lines(found).decode()
    except UnicodeDecodeError:
        return False
    return True


def encoded(data: bytes) -> Answer:
    """All of a file that is no text."""
    return _contents(base64.b64encode(data).decode(), "base64")


def window(found: InspectResult, offset: int, limit: int) -> Answer:
    """`limit` lines of a text from line `offset`, which counts from 0; of a larger file, of those that one read gives whole.

    Raises:
        InvalidRequest: no line is there.
    """
    if limit <= 0 and found.data:
        return _contents("", "utf-8") | {"no_lines_requested": True}
    page = _Page.of(found, max(offset, 0), limit)
    if page.lines:
        return _contents(page.text, "utf-8") | page.place
    if page.offset == 0 and not found.truncated:
        return _contents("", "utf-8")
    if found.truncated:
        raise InvalidRequest(
            f"line offset {page.offset} is beyond what one read gives, the first {page.known} lines of a file of "
            f"{found.total_bytes} bytes; use a command for what follows"
        )
    raise InvalidRequest(f"line offset {page.offset} is beyond the end of the file, which has {page.known} lines")


def as_lines_end_in(text: bytes, old: bytes, new: bytes) -> tuple[bytes, bytes]:
    """What to replace in `text`, and by what, with the ends of lines that stand there."""
    if old in text:
        return old, new
    on_unix = (old.replace(b"\r\n", b"\n"), new.replace(b"\r\n", b"\n"))
    on_windows = (on_unix[0].replace(b"\n", b"\r\n"), on_unix[1].replace(b"\n", b"\r\n"))
    return on_windows if on_windows[0] in text else on_unix


@attrs.frozen
class _Page:
    """Lines from `offset` of the `known` ones, which are all where the file `is_whole`; `ending` is what ends the last one."""

    lines: list[str]
    offset: int
    known: int
    is_whole: bool
    ending: str

    @classmethod
    def of(cls, found: InspectResult, offset: int, limit: int) -> _Page:
        text = _whole_lines(found).decode().replace("\r\n", "\n")
        lines = text.removesuffix("\n").split("\n") if text else []
        shown = lines[offset : offset + max(limit, 0)]
        is_end = offset + len(shown) == len(lines) and not found.truncated
        return cls(shown, offset, len(lines), not found.truncated, "\n" if is_end and text.endswith("\n") else "")

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + self.ending

    @property
    def place(self) -> Answer:
        end = self.offset + len(self.lines)
        place: Answer = {"start_line": self.offset + 1, "end_line": end}
        if self.is_whole:
            place["total_lines"] = self.known
        if not self.is_whole or end < self.known:
            place["next_offset"] = end
        return place


def _whole_lines(found: InspectResult) -> bytes:
    """What was read, without the line that the end of the read cut."""
    return found.data[: found.data.rfind(b"\n") + 1] if found.truncated else found.data


def _contents(content: str, encoding: str) -> Answer:
    return {"file_data": {"content": content, "encoding": encoding}}

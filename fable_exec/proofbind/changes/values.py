"""What the room takes and returns: frozen values, one exception, and the time that is left."""

from __future__ import annotations

import time
from enum import Enum
from typing import Any

import attrs

__all__ = ["CannotTell", "ChangeStatus", "Deadline", "DiffStat", "FileChange"]


class CannotTell(Exception):
    """There are no numbers, and never guessed ones. `why` is a stable word (docs/reference/proofs.md), `detail` a sentence."""

    def __init__(self, why: str, detail: str) -> None:
        super().__init__(why, detail)
        self.why = why
        self.detail = detail


class ChangeStatus(Enum):
    """How a path differs; the values are those of the documents."""

    MODIFIED = "modified"
    """In the base or in the index: changed, added or deleted."""
    BINARY = "binary"
    """The same of what git counts no lines of."""
    UNTRACKED = "untracked"
    UNTRACKED_BINARY = "untracked_binary"


@attrs.frozen(kw_only=True)
class FileChange:
    """One path and its numbers of lines; 0 and 0 for what is binary, and for a change of the mode alone."""

    path: str
    """Bytes that are no UTF-8 stand in it as lone surrogates."""
    insertions: int
    deletions: int
    status: ChangeStatus


@attrs.frozen
class DiffStat:
    """All that differs, sorted by path (code points)."""

    files: tuple[FileChange, ...]

    def members(self) -> dict[str, Any]:
        """The object that documents hold and `diff_sha256` is the digest of."""
        return {
            "count": len(self.files),
            "insertions": sum(each.insertions for each in self.files),
            "deletions": sum(each.deletions for each in self.files),
            "files": [{**attrs.asdict(each), "status": each.status.value} for each in self.files],
        }


class Deadline:
    """The time that is left for all of it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds, more than 0.

        Raises:
            CannotTell: `deadline`: there are none.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise CannotTell("deadline", f"it was not done within {self._seconds:g} seconds")
        return left

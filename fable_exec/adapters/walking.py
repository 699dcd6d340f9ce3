"""A search for paths, directory by directory, bounded in what it finds, in where it looks and in time."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import attrs

from fable_exec.errors import FableExecError, PathPermission
from fable_exec.protocol import ListResult

__all__ = ["MAX_MATCHES", "FoundPaths", "ListDirectory", "Wanted", "find_paths"]

ListDirectory = Callable[[str], Awaitable[ListResult]]
MAX_MATCHES = 1000
"""Most paths that one search is asked for."""
_MAX_DIRECTORIES = 5000
_MAX_SECONDS = 5.0
"""Callers give a search up after ten (deepagents does), and then know nothing of what it had found."""


class Wanted(Protocol):
    """What is looked for, by the names of a path below the directory where the search began."""

    def fits(self, names: tuple[str, ...]) -> bool:
        """Whether it is one of them."""

    def leads_on(self, names: tuple[str, ...]) -> bool:
        """Whether something below the directory of these names could be."""


@attrs.frozen(kw_only=True)
class FoundPaths:
    """Paths that fit, sorted; `truncated` when the search met a bound, `unreadable` when a directory is closed to this user."""

    matches: tuple[str, ...]
    truncated: bool
    unreadable: bool


async def find_paths(
    list_directory: ListDirectory, pattern: Wanted, directory: str, limit: int, *, kind: str | None = None
) -> FoundPaths:
    """At most `limit` paths that fit, named as `list_directory` does; what cannot be listed on the way is passed over.

    Args:
        kind: only what is of this one.

    Raises:
        FableExecError: `directory` itself cannot be listed.
    """
    listing = await list_directory(directory)
    walk = _Walk(list_directory, pattern, limit, kind)
    await walk.go(listing.path, listing)
    return FoundPaths(matches=tuple(sorted(walk.matches)), truncated=walk.truncated, unreadable=walk.unreadable)


@attrs.define
class _Walk:
    list_directory: ListDirectory
    pattern: Wanted
    limit: int
    kind: str | None
    matches: list[str] = attrs.field(factory=list)
    truncated: bool = False
    unreadable: bool = False
    _looked_at: int = 0
    _give_up_at: float = attrs.field(factory=lambda: time.monotonic() + _MAX_SECONDS)

    async def go(self, start: str, listing: ListResult) -> None:
        waiting = self._take(start, (), listing)
        while waiting and not self.truncated:
            names = waiting.pop()
            self._looked_at += 1
            if self._looked_at >= _MAX_DIRECTORIES or time.monotonic() >= self._give_up_at:
                self.truncated = True
                return
            try:
                found = await self.list_directory(_joined(start, names))
            except FableExecError as error:  # gone since, protected, or closed to this user
                self.unreadable = self.unreadable or isinstance(error, PathPermission)
                continue
            waiting += self._take(start, names, found)

    def _take(self, start: str, names: tuple[str, ...], listing: ListResult) -> list[tuple[str, ...]]:
        """Note what fits in one directory; the directories in it that are worth a look."""
        self.truncated = self.truncated or listing.truncated
        deeper = []
        for entry in listing.entries:
            below = (*names, entry.name)
            if self.kind in (None, entry.kind) and self.pattern.fits(below):
                if len(self.matches) == self.limit:
                    self.truncated = True
                    return []
                self.matches.append(_joined(start, below))
            if entry.kind == "directory" and self.pattern.leads_on(below):
                deeper.append(below)
        return deeper


def _joined(start: str, names: tuple[str, ...]) -> str:
    return "/".join(names if start == "." else (start.rstrip("/"), *names))

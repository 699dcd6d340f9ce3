"""A search for paths through a broker's door, directory by directory, bounded in what it finds and in where it looks."""

from __future__ import annotations

import attrs

from fable_exec.adapters.globbing import PathPattern
from fable_exec.adapters.values import GlobResult
from fable_exec.calls import AsyncCalls
from fable_exec.errors import FableExecError
from fable_exec.protocol import ListResult

__all__ = ["find_paths"]

_MAX_DIRECTORIES = 5000


async def find_paths(broker: AsyncCalls, pattern: PathPattern, directory: str, limit: int) -> GlobResult:
    """The first `limit` paths that fit, as the broker names them; what cannot be listed on the way is passed over.

    Raises:
        FableExecError: `directory` itself cannot be listed.
    """
    listing = await broker.list_directory(directory)
    walk = _Walk(broker, pattern, limit)
    await walk.go(listing.path, listing)
    return GlobResult(matches=tuple(sorted(walk.matches)), truncated=walk.truncated)


@attrs.define
class _Walk:
    broker: AsyncCalls
    pattern: PathPattern
    limit: int
    matches: list[str] = attrs.field(factory=list)
    truncated: bool = False
    _looked_at: int = 0

    async def go(self, start: str, listing: ListResult) -> None:
        waiting = self._take(start, (), listing)
        while waiting and not self.truncated:
            names = waiting.pop()
            self._looked_at += 1
            if self._looked_at >= _MAX_DIRECTORIES:
                self.truncated = True
                return
            try:
                found = await self.broker.list_directory(_joined(start, names))
            except FableExecError:
                continue  # gone since, unreadable, or protected
            waiting += self._take(start, names, found)

    def _take(self, start: str, names: tuple[str, ...], listing: ListResult) -> list[tuple[str, ...]]:
        """Note what fits in one directory; the directories in it that are worth a look."""
        self.truncated = self.truncated or listing.truncated
        deeper = []
        for entry in listing.entries:
            below = (*names, entry.name)
            if self.pattern.fits(below):
                if len(self.matches) == self.limit:
                    self.truncated = True
                    return []
                self.matches.append(_joined(start, below))
            if entry.kind == "directory" and self.pattern.leads_on(below):
                deeper.append(below)
        return deeper


def _joined(start: str, names: tuple[str, ...]) -> str:
    return "/".join(names if start == "." else (start, *names))

"""Find lines that hold a text in the files of a workspace, within bounds of files, bytes, matches and time.

The text is plain: a pattern from outside could make the matching itself run for ever. Files are read by the rules that hold for
any read; what those refuse is counted, not reported.
"""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Iterator

import attrs

from fable_exec.broker.paths import DoorPaths
from fable_exec.errors import FableExecError, PathDenied
from fable_exec.pathguard import FileKind, Trust, Workspace, WorkspacePath
from fable_exec.protocol import SearchFiles, SearchMatch, SearchResult
from fable_exec.protocol.alternatives import alternatives

__all__ = ["MAX_FILE_BYTES", "MAX_MATCHES", "MAX_SECONDS", "MAX_TOTAL_BYTES", "search"]

MAX_MATCHES = 1000
MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_TOTAL_BYTES = 256 * 1024 * 1024
MAX_SECONDS = 10.0
MAX_LINE_CHARACTERS = 400


@attrs.define
class _Tally:
    """How far a search has come."""

    give_up_at: float
    bytes_left: int
    matches: list[SearchMatch] = attrs.field(factory=list)
    searched: int = 0
    skipped: int = 0


def search(workspace: Workspace, paths: DoorPaths, start: WorkspacePath, request: SearchFiles, trust: Trust) -> SearchResult:
    """The matches of `request` below `start`, which may also be one file, by path and line."""
    limit = min(request.max_matches or MAX_MATCHES, MAX_MATCHES)
    tally = _Tally(give_up_at=time.monotonic() + MAX_SECONDS, bytes_left=MAX_TOTAL_BYTES)
    files = _Files(workspace, paths, start, request.name_pattern)
    cut = False
    for path in files:
        if len(tally.matches) > limit or tally.bytes_left <= 0 or time.monotonic() >= tally.give_up_at:
            cut = True
            break
        _search_file(workspace, path, request, trust, tally, limit + 1)
    cut = cut or files.truncated or len(tally.matches) > limit
    skipped = tally.skipped + files.skipped
    return SearchResult(matches=tuple(tally.matches[:limit]), truncated=cut, files_searched=tally.searched, files_skipped=skipped)


class _Files:
    """The regular files below a path whose names fit, without those that the policy protects."""

    def __init__(self, workspace: Workspace, paths: DoorPaths, start: WorkspacePath, name_pattern: str | None) -> None:
        self._workspace = workspace
        self._paths = paths
        self._start = start
        self._name_patterns = None if name_pattern is None else alternatives(name_pattern)
        self.truncated = False
        self.skipped = 0

    def __iter__(self) -> Iterator[WorkspacePath]:
        if self._workspace.stat(self._start).kind is FileKind.FILE:
            yield self._start
            return
        walk = self._workspace.iterate(self._start, descend=self._is_open)
        for found in walk:
            if found.entry.kind is FileKind.FILE and self._fits(found.path.name):
                if self._is_open(found.path):
                    yield found.path
                else:
                    self.skipped += 1
        self.truncated = walk.truncated

    def _fits(self, name: str) -> bool:
        return self._name_patterns is None or any(fnmatch.fnmatchcase(name, each) for each in self._name_patterns)

    def _is_open(self, path: WorkspacePath) -> bool:
        try:
            self._paths.check_name(path.name)
        except PathDenied:
            return False
        return True


def _search_file(
    workspace: Workspace, path: WorkspacePath, request: SearchFiles, trust: Trust, tally: _Tally, limit: int
) -> None:
    try:
        found = workspace.read(path, MAX_FILE_BYTES, trust)
    except FableExecError:
        tally.skipped += 1
        return
    tally.bytes_left -= len(found.data)
    if found.truncated or b"\0" in found.data:
        tally.skipped += 1
        return
    tally.searched += 1
    if request.ignore_case or request.query.encode() in found.data:
        _search_text(found.data.decode("utf-8", "replace"), path, request, tally, limit)


def _search_text(text: str, path: WorkspacePath, request: SearchFiles, tally: _Tally, limit: int) -> None:
    query = request.query.casefold() if request.ignore_case else request.query
    for number, line in enumerate(text.split("\n"), start=1):
        compared = line.casefold() if request.ignore_case else line
        at = compared.find(query)
        if at < 0:
            continue
        start = max(0, at - MAX_LINE_CHARACTERS // 2) if len(line) > MAX_LINE_CHARACTERS else 0
        shown = line[start : start + MAX_LINE_CHARACTERS].removesuffix("\r")
        tally.matches.append(SearchMatch(path=str(path), line=number, column=at + 1, text=shown))
        if len(tally.matches) >= limit:
            return

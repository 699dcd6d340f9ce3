"""The answers about the broker and about files: frozen values, the same in process and behind a pipe.

Text members of the wire (`content`) are bytes here, with a property that gives the text. How they are written is said in
fable_exec.protocol.encoding, which answer belongs to which request in fable_exec.protocol.answers.
"""

from __future__ import annotations

import attrs

from fable_exec.outcome import Applied, Captured
from fable_exec.protocol.requests import ACTIONS

__all__ = [
    "CAPABILITIES",
    "HOST",
    "PROTOCOL_VERSION",
    "AppendResult",
    "DirectoryEntry",
    "InspectResult",
    "LimitsReport",
    "ListResult",
    "MakeDirectoryResult",
    "MoveResult",
    "ProbeResult",
    "RemoveResult",
    "Result",
    "SearchMatch",
    "SearchResult",
    "StatResult",
    "WriteResult",
]

PROTOCOL_VERSION = 1
HOST = "fable-execution-broker"

_FIRST_CAPABILITIES = ("execute_command", "inspect_files", "probe_capabilities", "write_file")
CAPABILITIES: tuple[str, ...] = _FIRST_CAPABILITIES + tuple(
    sorted(word for word in ACTIONS if word not in (*_FIRST_CAPABILITIES, "probe"))
)
"""What `probe` names: the four that every peer of this protocol knows first, then the others by name."""


@attrs.frozen(kw_only=True)
class Result:
    """What every answer is."""


@attrs.frozen(kw_only=True)
class LimitsReport:
    """The bounds a peer must know. `idle_timeout_seconds` None: there is no idle deadline unless asked for."""

    timeout_seconds: float
    max_timeout_seconds: float
    idle_timeout_seconds: float | None
    max_output_bytes: int
    max_frame_bytes: int
    max_answer_bytes: int
    max_in_flight: int


@attrs.frozen(kw_only=True)
class ProbeResult(Result):
    """Who answers, what it can do, and what its policy and this host make of each protection.

    `notes` say in sentences what commands will miss in this workspace and what to do about it.
    """

    host: str = HOST
    capabilities: tuple[str, ...] = CAPABILITIES
    available_executables: tuple[str, ...]
    unresolved_executables: tuple[str, ...]
    writes_enabled: bool
    read_locked_interpreters: tuple[str, ...]
    workspace: str
    protocol_version: int = PROTOCOL_VERSION
    policy_digest: str
    confinement: tuple[Applied, ...]
    limits: LimitsReport
    notes: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class InspectResult(Result):
    """The first bytes of a file. `content_hash` is the SHA-256 of `data`, `total_bytes` the size of the whole file."""

    path: str
    data: bytes
    content_hash: str
    truncated: bool
    total_bytes: int

    @property
    def content(self) -> str:
        """`data` as text; a character that the end of a truncated read split is left out."""
        return Captured(head=self.data, total_bytes=len(self.data) + self.truncated).text()


@attrs.frozen(kw_only=True)
class WriteResult(Result):
    """A file was written as a whole. `content_hash` is the SHA-256 of what it now holds."""

    path: str
    content_hash: str
    total_bytes: int
    created: bool
    writes_enabled: bool = True


@attrs.frozen(kw_only=True)
class AppendResult(Result):
    """Bytes were added; `total_bytes` is the size of the file afterwards."""

    path: str
    appended_bytes: int
    total_bytes: int
    created: bool
    writes_enabled: bool = True


@attrs.frozen(kw_only=True)
class DirectoryEntry:
    """One name in a directory. `kind` is "file", "directory", "symlink" or "other"; `size_bytes` is for files only."""

    name: str
    kind: str
    size_bytes: int | None = None


@attrs.frozen(kw_only=True)
class ListResult(Result):
    """The entries of a directory by name; `truncated` when there are more."""

    path: str
    entries: tuple[DirectoryEntry, ...]
    truncated: bool


@attrs.frozen(kw_only=True)
class StatResult(Result):
    """What is known of a path. `mode` holds the permission bits, `modified_seconds` counts from the epoch."""

    path: str
    kind: str
    size_bytes: int
    mode: int
    links: int
    modified_seconds: float


@attrs.frozen(kw_only=True)
class MakeDirectoryResult(Result):
    """The directory exists; `created` is false if it did before."""

    path: str
    created: bool
    writes_enabled: bool = True


@attrs.frozen(kw_only=True)
class MoveResult(Result):
    """The source now has the name of the destination; `replaced` says that something else had it before."""

    source: str
    destination: str
    replaced: bool
    writes_enabled: bool = True


@attrs.frozen(kw_only=True)
class RemoveResult(Result):
    """The path is gone; `removed` counts the files and directories that went with it, itself included."""

    path: str
    removed: int
    writes_enabled: bool = True


@attrs.frozen(kw_only=True)
class SearchMatch:
    """One line that holds the query. `line` and `column` count from 1, `column` in characters; `text` may be cut."""

    path: str
    line: int
    column: int
    text: str


@attrs.frozen(kw_only=True)
class SearchResult(Result):
    """Matches by path and line. Skipped files were refused, unreadable, not text, or over a bound."""

    matches: tuple[SearchMatch, ...]
    truncated: bool
    files_searched: int
    files_skipped: int

"""What the tools answer. Each class is the output schema of one or more; the functions make them of the broker's answers."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from fable_exec.adapters.statuses import status_of
from fable_exec.adapters.values import GlobResult
from fable_exec.outcome import Applied, Denial, EndedBy, whole_characters
from fable_exec.protocol import (
    AppendResult,
    CommandResult,
    InspectResult,
    ListResult,
    MakeDirectoryResult,
    MoveResult,
    ProbeResult,
    RemoveResult,
    SearchResult,
    StatResult,
    WriteResult,
)

__all__ = [
    "Appended",
    "CommandReport",
    "FileContent",
    "FoundPaths",
    "Listing",
    "Made",
    "Matches",
    "Moved",
    "PathStatus",
    "Removed",
    "WorkspaceReport",
    "Written",
    "of_append",
    "of_command",
    "of_glob",
    "of_inspect",
    "of_list",
    "of_make",
    "of_move",
    "of_probe",
    "of_remove",
    "of_search",
    "of_stat",
    "of_write",
]

_Kind = Literal["file", "directory", "symlink", "other"]
_Bytes = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """One act of the command that the kernel refused."""

    operation: str
    target: Annotated[str, Field(description="The path or address that it was tried on.")]
    protection: str
    suggestion: str


@dataclass(frozen=True, kw_only=True)
class CommandReport:
    """How a command ended, and what it printed. Nothing of it is alive."""

    reason: Annotated[EndedBy, Field(description="Why it ended; a timeout or limit leaves partial output.")]
    status: Annotated[int, Field(ge=0, le=255, description="0 success; 124 timeout; 128+n signal n; 137 a limit.")]
    exit_code: Annotated[int | None, Field(description="Its own exit status, if it exited.")]
    signal: Annotated[int | None, Field(description="The signal that ended it, if one did.")]
    stdout: str
    stderr: str
    truncated: Annotated[bool, Field(description="Whether a byte of output is missing here.")]
    stdout_omitted_bytes: _Bytes
    stderr_omitted_bytes: _Bytes
    duration_seconds: Annotated[float, Field(ge=0)]
    command: Annotated[list[str], Field(description="What was executed.")]
    cwd: str
    refusals: Annotated[list[Refusal], Field(description="What the sandbox refused to it.")]


@dataclass(frozen=True, kw_only=True)
class FileContent:
    """The first bytes of a file."""

    path: str
    content: str
    encoding: Annotated[Literal["utf-8", "base64"], Field(description="base64 where the bytes are no UTF-8.")]
    content_hash: Annotated[str | None, Field(description="SHA-256 of the whole file; none where it is truncated.")]
    truncated: bool
    total_bytes: _Bytes


@dataclass(frozen=True, kw_only=True)
class Written:
    """The file is as asked."""

    path: str
    content_hash: str
    total_bytes: _Bytes
    created: bool


@dataclass(frozen=True, kw_only=True)
class Appended:
    """The bytes are at the end of the file."""

    path: str
    appended_bytes: _Bytes
    total_bytes: _Bytes
    created: bool


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One name in a directory."""

    name: str
    kind: _Kind
    size_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The entries of a directory."""

    path: str
    entries: list[Entry]
    truncated: bool


@dataclass(frozen=True, kw_only=True)
class PathStatus:
    """What is known of a path."""

    path: str
    kind: _Kind
    size_bytes: _Bytes
    mode: Annotated[str, Field(description="Permission bits, octal.")]
    modified_seconds: Annotated[float, Field(description="Since the epoch.")]


@dataclass(frozen=True, kw_only=True)
class Made:
    """The directory is there."""

    path: str
    created: bool


@dataclass(frozen=True, kw_only=True)
class Moved:
    """The source has the name of the destination now."""

    source: str
    destination: str
    replaced: bool


@dataclass(frozen=True, kw_only=True)
class Removed:
    """The path is gone."""

    path: str
    removed: Annotated[int, Field(ge=0, description="How many files and directories went.")]


@dataclass(frozen=True, kw_only=True)
class Match:
    """One line that holds the query; line and column count from 1."""

    path: str
    line: int
    column: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Matches:
    """What a search found."""

    matches: list[Match]
    truncated: bool
    files_searched: int
    files_skipped: int


@dataclass(frozen=True, kw_only=True)
class FoundPaths:
    """Paths that fit a pattern."""

    matches: list[str]
    truncated: bool


@dataclass(frozen=True, kw_only=True)
class Protection:
    """What becomes of one protection on this host."""

    protection: str
    state: Annotated[str, Field(description="active, degraded, unavailable or off.")]
    reason: str


@dataclass(frozen=True, kw_only=True)
class WorkspaceReport:
    """What can be done here."""

    workspace: str
    writes_enabled: bool
    available_executables: list[str]
    max_timeout_seconds: float
    max_output_bytes: int
    protections: list[Protection]
    notes: list[str]


def of_command(result: CommandResult) -> CommandReport:
    exited = result.exit_code if result.signal is None else None
    return CommandReport(
        reason=result.outcome,
        status=status_of(result),
        exit_code=exited,
        signal=result.signal,
        stdout=result.stdout,
        stderr=result.stderr,
        truncated=result.output_limited,
        stdout_omitted_bytes=result.stdout_omitted_bytes,
        stderr_omitted_bytes=result.stderr_omitted_bytes,
        duration_seconds=round(result.duration_seconds, 6),
        command=list(result.command),
        cwd=result.cwd,
        refusals=[_refusal(each) for each in result.denials],
    )


def _refusal(denial: Denial) -> Refusal:
    target = denial.path or denial.address
    return Refusal(operation=denial.operation, target=target, protection=denial.protection, suggestion=denial.suggestion)


def of_inspect(found: InspectResult) -> FileContent:
    encoding: Literal["utf-8", "base64"] = "utf-8"
    try:
        # A cut may go through a character; the rest of it is as missing as all that follows.
        content = found.data[: whole_characters(found.data) if found.truncated else None].decode()
    except UnicodeDecodeError:
        content, encoding = base64.b64encode(found.data).decode("ascii"), "base64"
    return FileContent(
        path=found.path,
        content=content,
        encoding=encoding,
        content_hash=None if found.truncated else found.content_hash,
        truncated=found.truncated,
        total_bytes=found.total_bytes,
    )


def of_write(result: WriteResult) -> Written:
    return Written(path=result.path, content_hash=result.content_hash, total_bytes=result.total_bytes, created=result.created)


def of_append(result: AppendResult) -> Appended:
    return Appended(
        path=result.path, appended_bytes=result.appended_bytes, total_bytes=result.total_bytes, created=result.created
    )


def of_list(result: ListResult) -> Listing:
    entries = [Entry(name=each.name, kind=_kind(each.kind), size_bytes=each.size_bytes) for each in result.entries]
    return Listing(path=result.path, entries=entries, truncated=result.truncated)


def of_stat(result: StatResult) -> PathStatus:
    return PathStatus(
        path=result.path,
        kind=_kind(result.kind),
        size_bytes=result.size_bytes,
        mode=f"{result.mode:04o}",
        modified_seconds=result.modified_seconds,
    )


def _kind(word: str) -> _Kind:
    return "file" if word == "file" else "directory" if word == "directory" else "symlink" if word == "symlink" else "other"


def of_make(result: MakeDirectoryResult) -> Made:
    return Made(path=result.path, created=result.created)


def of_move(result: MoveResult) -> Moved:
    return Moved(source=result.source, destination=result.destination, replaced=result.replaced)


def of_remove(result: RemoveResult) -> Removed:
    return Removed(path=result.path, removed=result.removed)


def of_search(result: SearchResult) -> Matches:
    matches = [Match(path=each.path, line=each.line, column=each.column, text=each.text) for each in result.matches]
    return Matches(
        matches=matches,
        truncated=result.truncated,
        files_searched=result.files_searched,
        files_skipped=result.files_skipped,
    )


def of_glob(result: GlobResult) -> FoundPaths:
    return FoundPaths(matches=list(result.matches), truncated=result.truncated)


def of_probe(result: ProbeResult, workspace: str) -> WorkspaceReport:
    return WorkspaceReport(
        workspace=workspace,
        writes_enabled=result.writes_enabled,
        available_executables=list(result.available_executables),
        max_timeout_seconds=result.limits.max_timeout_seconds,
        max_output_bytes=result.limits.max_output_bytes,
        protections=[_protection(each) for each in result.confinement],
        notes=list(result.notes),
    )


def _protection(applied: Applied) -> Protection:
    return Protection(protection=applied.protection, state=applied.state, reason=applied.reason)

"""The file requests: path text to checked path, the gate, then one operation of the pinned workspace."""

from __future__ import annotations

import hashlib

import attrs

from fable_exec.broker.gate import Gate
from fable_exec.broker.later import LaterDoor
from fable_exec.broker.near_misses import near_miss
from fable_exec.broker.paths import DoorPaths
from fable_exec.broker.recording import Operation
from fable_exec.broker.searching import search
from fable_exec.errors import Conflict, InvalidRequest
from fable_exec.pathguard import Entry, FileKind, Workspace, WorkspacePath
from fable_exec.policy import BrokerPolicy
from fable_exec.protocol import (
    Append,
    AppendResult,
    DirectoryEntry,
    EditFile,
    InspectFiles,
    InspectResult,
    ListDirectory,
    ListResult,
    MakeDirectory,
    MakeDirectoryResult,
    MovePath,
    MoveResult,
    RemovePath,
    RemoveResult,
    SearchFiles,
    SearchResult,
    StatPath,
    StatResult,
    WriteFile,
    WriteResult,
)

__all__ = ["MAX_EDITED_BYTES", "MAX_LISTED_ENTRIES", "FileWork"]

MAX_EDITED_BYTES = 64 * 1024 * 1024
"""Largest file that is read whole in order to change a part of it."""
MAX_LISTED_ENTRIES = 10_000
_KINDS = {FileKind.FILE: "file", FileKind.DIRECTORY: "directory", FileKind.SYMLINK: "symlink"}


class FileWork:
    """Does what the file requests say, for one broker. Thread-safe."""

    def __init__(self, policy: BrokerPolicy, workspace: Workspace, paths: DoorPaths, gate: Gate, later: LaterDoor) -> None:
        self._workspace = workspace
        self._paths = paths
        self._gate = gate
        self._later = later
        self._trust = policy.paths.file_trust
        self._max_bytes = policy.max_output_bytes

    # Looking

    def inspect(self, request: InspectFiles, operation: Operation) -> InspectResult:
        path = self._paths.existing(request.path)
        self._gate.observe(operation, request.action, path=str(path))
        wanted = self._max_bytes if request.max_bytes is None else min(request.max_bytes, self._max_bytes)
        found = self._workspace.read(path, wanted, self._trust)
        return InspectResult(
            path=str(path),
            data=found.data,
            content_hash=found.sha256,
            truncated=found.truncated,
            total_bytes=found.total_bytes,
        )

    def list(self, request: ListDirectory, operation: Operation) -> ListResult:
        path = self._paths.existing(request.path)
        self._gate.observe(operation, request.action, path=str(path))
        limit = min(request.max_entries or MAX_LISTED_ENTRIES, MAX_LISTED_ENTRIES)
        found = self._workspace.list(path, limit)
        entries = tuple(_directory_entry(entry) for entry in found.entries)
        return ListResult(path=str(path), entries=entries, truncated=found.truncated)

    def stat(self, request: StatPath, operation: Operation) -> StatResult:
        path = self._paths.existing(request.path)
        self._gate.observe(operation, request.action, path=str(path))
        entry = self._workspace.stat(path)
        return StatResult(
            path=str(path),
            kind=_kind_word(entry),
            size_bytes=entry.size_bytes,
            mode=entry.mode,
            links=entry.link_count,
            modified_seconds=entry.modified_ns / 1e9,
        )

    def search(self, request: SearchFiles, operation: Operation) -> SearchResult:
        path = self._paths.existing(request.path)
        self._gate.observe(operation, request.action, path=str(path))
        return search(self._workspace, self._paths, path, request, self._trust)

    # Writing

    def write(self, request: WriteFile, operation: Operation) -> WriteResult:
        path = self._paths.written(request.path)
        self._gate.write(operation, path)
        with self._later.writing(path):
            return self._replace(path, request.content, request.expected_hash)

    def edit(self, request: EditFile, operation: Operation) -> WriteResult:
        path = self._paths.written(request.path)
        self._gate.write(operation, path)
        before = self._whole(path, request.expected_hash)
        places = before.count(request.old)
        if places != 1 or before.find(request.old) != before.rfind(request.old):  # count skips overlaps
            absent = f"is not there{near_miss(before, request.old)}"
            text = absent if places == 0 else "stands there more than once; give more of what is around it"
            raise Conflict(
                f"{str(path)!r} was not changed: the text to replace {text}", reason="absent" if places == 0 else "not-unique"
            )
        after = before.replace(request.old, request.new, 1)
        with self._later.writing(path):
            return self._replace(path, after, hashlib.sha256(before).hexdigest())

    def append(self, request: Append, operation: Operation) -> AppendResult:
        path = self._paths.written(request.path)
        self._gate.write(operation, path)
        with self._later.writing(path):
            return self._append(path, request.content, request.expected_hash)

    def make_directory(self, request: MakeDirectory, operation: Operation) -> MakeDirectoryResult:
        path = self._paths.written(request.path)
        self._gate.write(operation, path)
        with self._later.writing(path, directory=True):
            made = self._workspace.make_directories(path)
        return MakeDirectoryResult(path=str(path), created=made > 0)

    def move(self, request: MovePath, operation: Operation) -> MoveResult:
        source, destination = self._paths.existing(request.source), self._paths.written(request.destination)
        self._gate.write(operation, source, destination)
        self._refuse_protected_below(source)
        with self._later.moving(source, destination):
            replaced = request.replace and self._is_there(destination)
            self._workspace.rename(source, destination, replace=request.replace)
        return MoveResult(source=str(source), destination=str(destination), replaced=replaced)

    def remove(self, request: RemovePath, operation: Operation) -> RemoveResult:
        path = self._paths.existing(request.path)
        self._gate.write(operation, path)
        # Asked of the name alone: "link/" is then refused as what it is for a removal, not a directory.
        is_directory = self._workspace.stat(attrs.evolve(path, directory_required=False)).kind is FileKind.DIRECTORY
        if is_directory and request.recursive:
            self._paths.refuse_protected_below(path)
        self._later.removing(path)
        if is_directory and request.recursive:
            return RemoveResult(path=str(path), removed=self._workspace.remove_tree(path))
        (self._workspace.remove_directory if is_directory else self._workspace.remove)(path)
        return RemoveResult(path=str(path), removed=1)

    def _append(self, path: WorkspacePath, content: bytes, expected: str | None) -> AppendResult:
        size = len(content)
        if expected is not None:
            before = self._whole(path, expected)
            self._replace(path, before + content, expected)
            return AppendResult(path=str(path), appended_bytes=size, total_bytes=len(before) + size, created=False)
        added = self._workspace.append(path, content, create=True)
        return AppendResult(
            path=str(path), appended_bytes=added.added_bytes, total_bytes=added.total_bytes, created=added.created
        )

    def _replace(self, path: WorkspacePath, content: bytes, expected: str | None) -> WriteResult:
        written = self._workspace.write_replace(path, content, expected_sha256=expected)
        return WriteResult(path=str(path), content_hash=written.sha256, total_bytes=written.size_bytes, created=written.created)

    def _whole(self, path: WorkspacePath, expected: str | None) -> bytes:
        """All of a file that is to be changed, which must have the expected digest if one is given."""
        found = self._workspace.read(path, MAX_EDITED_BYTES, self._trust)
        if found.truncated:
            raise InvalidRequest(f"{str(path)!r} is larger than {MAX_EDITED_BYTES} bytes, too large to be changed in part")
        if expected is not None and found.sha256 != expected:
            raise Conflict(f"{str(path)!r} was not changed: it is not as expected_hash says; read it again", reason="changed")
        return found.data

    def _refuse_protected_below(self, path: WorkspacePath) -> None:
        if self._workspace.stat(path).kind is FileKind.DIRECTORY:
            self._paths.refuse_protected_below(path)

    def _is_there(self, path: WorkspacePath) -> bool:
        try:
            self._workspace.stat(path)
        except FileNotFoundError:
            return False
        return True


def _kind_word(entry: Entry) -> str:
    return _KINDS.get(entry.kind, "other")


def _directory_entry(entry: Entry) -> DirectoryEntry:
    is_file = entry.kind is FileKind.FILE
    return DirectoryEntry(name=entry.name, kind=_kind_word(entry), size_bytes=entry.size_bytes if is_file else None)

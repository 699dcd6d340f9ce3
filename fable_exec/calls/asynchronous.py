"""The calls for asyncio, the same as BlockingCalls with `await`; a test keeps the two alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from fable_exec.calls.building import as_bytes, background_request, command_request, expect
from fable_exec.calls.handles import AsyncCommandHandle, OnEvent
from fable_exec.calls.mappings import missing_file_is_value_error
from fable_exec.outcome import OnOutputLimit
from fable_exec.policy import BrokerPolicy
from fable_exec.protocol import (
    Append,
    AppendResult,
    Cancel,
    CancelResult,
    CommandResult,
    EditFile,
    InspectFiles,
    InspectResult,
    ListCommands,
    ListCommandsResult,
    ListDirectory,
    ListResult,
    MakeDirectory,
    MakeDirectoryResult,
    MovePath,
    MoveResult,
    Probe,
    ProbeResult,
    ReadCommand,
    ReadCommandResult,
    RemovePath,
    RemoveResult,
    Request,
    Result,
    SearchFiles,
    SearchResult,
    StartCommand,
    StartResult,
    StatPath,
    StatResult,
    WriteFile,
    WriteResult,
    WriteStdin,
    WriteStdinResult,
    decode_request,
    encode_result,
)

__all__ = ["AsyncCalls"]

_R = TypeVar("_R", bound=Result)


class AsyncCalls(ABC):
    """Every request as a coroutine method. Cancelling one that runs a command ends its whole tree before it goes on.

    A denial raises a `Denied`, a malformed argument InvalidRequest, a fact of the file system a PathError, each before anything
    was changed; see fable_exec.errors. A command that ran is never an exception, whatever became of it.
    """

    policy: BrokerPolicy

    @abstractmethod
    async def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        """Do what `request` says; `on_event` gets the events of an ExecuteCommand."""

    @abstractmethod
    async def _start(self, request: StartCommand) -> AsyncCommandHandle: ...

    async def _call(self, kind: type[_R], request: Request, on_event: OnEvent | None = None) -> _R:
        return expect(await self.perform(request, on_event), kind)

    async def handle(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do what the members of a wire request say; returns the wire's `result`, raises instead of an error answer.

        A file that is missing on `inspect_files` is a ValueError here too, as peers of the protocol have always known it.
        """
        typed = decode_request(request, self.policy.limits)
        with missing_file_is_value_error(typed):
            result = await self.perform(typed)
        return encode_result(result, typed, max_answer_bytes=self.policy.limits.max_answer_bytes)

    async def probe(self) -> ProbeResult:
        """What this broker is, what it can do, and what its policy and this host make of each protection."""
        return await self._call(ProbeResult, Probe())

    # Files

    async def inspect_files(self, path: str, max_bytes: int | None = None) -> InspectResult:
        """The first bytes of a file: at most `max_bytes`, and never more than the policy's cap."""
        return await self._call(InspectResult, InspectFiles(path=path, max_bytes=max_bytes))

    async def write_file(self, path: str, content: str | bytes, *, expected_hash: str | None = None) -> WriteResult:
        """Give a file exactly `content`, atomically and durably; missing parents are made.

        Args:
            expected_hash: SHA-256 of the content it must have now, else Conflict.
        """
        return await self._call(
            WriteResult, WriteFile(path=path, content=as_bytes(content, "content"), expected_hash=expected_hash)
        )

    async def append(self, path: str, content: str | bytes, *, expected_hash: str | None = None) -> AppendResult:
        """Add `content` to the end of a file, which is created if there is none."""
        return await self._call(
            AppendResult, Append(path=path, content=as_bytes(content, "content"), expected_hash=expected_hash)
        )

    async def edit_file(self, path: str, old: str | bytes, new: str | bytes, *, expected_hash: str | None = None) -> WriteResult:
        """Replace the one place where `old` stands by `new`; Conflict if it is absent or stands there more than once."""
        request = EditFile(path=path, old=as_bytes(old, "old"), new=as_bytes(new, "new"), expected_hash=expected_hash)
        return await self._call(WriteResult, request)

    async def list_directory(self, path: str = ".", *, max_entries: int | None = None) -> ListResult:
        """The entries of a directory, sorted by name."""
        return await self._call(ListResult, ListDirectory(path=path, max_entries=max_entries))

    async def stat_path(self, path: str) -> StatResult:
        """Kind, size, mode and time of a path; a link is described, not followed."""
        return await self._call(StatResult, StatPath(path=path))

    async def make_directory(self, path: str) -> MakeDirectoryResult:
        """Make a directory and the parents it lacks; one that is there already is no error."""
        return await self._call(MakeDirectoryResult, MakeDirectory(path=path))

    async def move_path(self, source: str, destination: str, *, replace: bool = False) -> MoveResult:
        """Rename within the workspace; an existing destination is PathExists unless `replace`."""
        return await self._call(MoveResult, MovePath(source=source, destination=destination, replace=replace))

    async def remove_path(self, path: str, *, recursive: bool = False) -> RemoveResult:
        """Remove a file, a link itself, or an empty directory; with `recursive` a directory with all below it."""
        return await self._call(RemoveResult, RemovePath(path=path, recursive=recursive))

    async def search_files(
        self,
        query: str,
        path: str = ".",
        *,
        name_pattern: str | None = None,
        ignore_case: bool = False,
        max_matches: int | None = None,
    ) -> SearchResult:
        """Lines that hold `query`, which is plain text, in the files below `path`; bounded in matches, bytes and time."""
        request = SearchFiles(query=query, path=path, name_pattern=name_pattern, ignore_case=ignore_case, max_matches=max_matches)
        return await self._call(SearchResult, request)

    # Commands

    async def execute_command(
        self,
        command: Iterable[str],
        cwd: str | None = None,
        timeout_seconds: float | None = None,
        *,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        idle_timeout_seconds: float | None = None,
        on_output_limit: OnOutputLimit | None = None,
        on_event: OnEvent | None = None,
    ) -> CommandResult:
        """Run a command to its end; nothing that it started is alive afterwards.

        Args:
            command: the executable, by its bare name or its registered absolute path, and its arguments. Never a shell line.
            cwd: a directory below the workspace.
            timeout_seconds, idle_timeout_seconds, on_output_limit: None is the policy's default.
            stdin: input; None is /dev/null.
            env: variables that the policy lets requests set (`environment.request_names`).
            on_event: gets the output while the command runs.
        """
        stream = on_event is not None
        request = command_request(command, cwd, timeout_seconds, stdin, env, idle_timeout_seconds, on_output_limit, stream)
        return await self._call(CommandResult, request, on_event)

    async def start_command(
        self,
        command: Iterable[str],
        cwd: str | None = None,
        timeout_seconds: float | None = None,
        *,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        idle_timeout_seconds: float | None = None,
        on_output_limit: OnOutputLimit | None = None,
        keep_stdin_open: bool = False,
    ) -> AsyncCommandHandle:
        """Start a command and return a handle to follow, feed, cancel and wait for it."""
        return await self._start(
            background_request(command, cwd, timeout_seconds, stdin, env, idle_timeout_seconds, on_output_limit, keep_stdin_open)
        )

    async def start_background(
        self,
        command: Iterable[str],
        cwd: str | None = None,
        timeout_seconds: float | None = None,
        *,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        idle_timeout_seconds: float | None = None,
        on_output_limit: OnOutputLimit | None = None,
        keep_stdin_open: bool = False,
    ) -> StartResult:
        """Start a command that the broker itself drains and remembers by a name, as a model would; bounded in number."""
        request = background_request(
            command, cwd, timeout_seconds, stdin, env, idle_timeout_seconds, on_output_limit, keep_stdin_open
        )
        return await self._call(StartResult, request)

    async def read_command(self, handle: str, wait_seconds: float = 0.0) -> ReadCommandResult:
        """What a background command said since the last read; waits for some, or for its end, up to `wait_seconds`."""
        return await self._call(ReadCommandResult, ReadCommand(handle=handle, wait_seconds=wait_seconds))

    async def write_stdin(self, handle: str, data: str | bytes = b"", *, close: bool = False) -> WriteStdinResult:
        """Send input to a background command, and with `close` end its input."""
        return await self._call(WriteStdinResult, WriteStdin(handle=handle, data=as_bytes(data, "data"), close=close))

    async def cancel_command(self, handle: str) -> CancelResult:
        """End the whole tree of a background command."""
        return await self._call(CancelResult, Cancel(handle=handle))

    async def list_commands(self) -> ListCommandsResult:
        """The background commands whose names are known, oldest first."""
        return await self._call(ListCommandsResult, ListCommands())

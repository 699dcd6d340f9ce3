"""The workspace that an agent framework works in: commands in three call shapes, and files under the same rules.

It stands on any asyncio broker, in process or spawned, and holds nothing of its own: who opened the broker closes it. It has no
way to unlock writes; that is the administrator's.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncGenerator, Mapping
from typing import TypeVar

import attrs

from fable_exec import writelock
from fable_exec.adapters.following import OnWorkspaceEvent, WorkspaceListener, end_and_wait, to_its_end
from fable_exec.adapters.globbing import PathPatterns
from fable_exec.adapters.launching import launch_spec
from fable_exec.adapters.shelltext import shell_command
from fable_exec.adapters.statuses import Completed, completed, refused
from fable_exec.adapters.values import GlobResult, LaunchSpec, RunRequest, WorkspaceEvent
from fable_exec.adapters.views import View, WorkspaceView
from fable_exec.adapters.walking import MAX_MATCHES, find_paths
from fable_exec.calls import AsyncCalls
from fable_exec.calls.building import expect
from fable_exec.calls.listening import check_listener
from fable_exec.errors import (
    ExecutableDenied,
    FableExecError,
    LaunchFailed,
    PathDenied,
    PathError,
    PathNotDirectory,
    PathNotFound,
)
from fable_exec.executables import trusted_path
from fable_exec.outcome import OnOutputLimit
from fable_exec.policy import BrokerPolicy
from fable_exec.protocol import (
    AppendResult,
    CommandResult,
    ExecuteCommand,
    InspectResult,
    ListResult,
    MakeDirectoryResult,
    MoveResult,
    ProbeResult,
    RemoveResult,
    SearchResult,
    StatResult,
    WriteResult,
    rules,
)
from fable_exec.writelock import WriteLock

__all__ = ["AgentWorkspace"]

_OfPath = TypeVar("_OfPath", AppendResult, InspectResult, ListResult, MakeDirectoryResult, RemoveResult, StatResult, WriteResult)


class AgentWorkspace:
    """Commands and files of one broker, as agent frameworks ask for them. For the loop that the broker belongs to.

    Cancelling a call that runs a command ends the command's whole tree before the cancellation goes on.

    Args:
        broker: an AsyncExecutionBroker or an AsyncBrokerClient; it stays the caller's.
        view: "host" for absolute paths of the host, "root" where "/" is the workspace. A view is about `cwd` and the paths of
            file operations; arguments of commands are never rewritten, and commands see the host's path.
    """

    def __init__(self, broker: AsyncCalls, *, view: View = "host") -> None:
        self._broker = broker
        self._view = WorkspaceView(str(broker.policy.workspace), view)
        self._launch_lock = WriteLock(broker.policy.write_token_digest, writelock.now)

    @property
    def policy(self) -> BrokerPolicy:
        """What the broker goes by."""
        return self._broker.policy

    @property
    def root(self) -> str:
        """What the view calls the workspace itself."""
        return self._view.root

    async def probe(self) -> ProbeResult:
        """What the broker is and can do now, and what holds on this host."""
        return await self._broker.probe()

    # Commands

    async def run(self, request: RunRequest, on_event: OnWorkspaceEvent | None = None) -> CommandResult:
        """Run a command to its end; nothing that it started is alive afterwards. Whatever became of it is in the result.

        Args:
            on_event: gets what `stream` would give; an awaitable that it returns is awaited before the command's next event is.

        Raises:
            Denied: the policy refuses it; ShellDenied: a text, and the kernel does not hold what a shell could do.
            LaunchFailed: it could not be started; of the stage "exec" with ENOENT, if there is no such program.
            InvalidRequest, PathError: the request is not of its form; its directory is not there.
        """
        check_listener(on_event)
        wire = await self._command_of(request, stream=on_event is not None)
        listener = None if on_event is None else WorkspaceListener(on_event)
        try:
            result = expect(
                await to_its_end(self._broker.perform(wire, None if listener is None else listener.hear)), CommandResult
            )
        except ExecutableDenied as refusal:
            raise _as_missing(refusal, wire.command[0], self.policy) or refusal from None
        if listener is not None:
            await listener.finish(result)
        return result

    async def complete(self, request: RunRequest) -> Completed:
        """The same for frameworks that want a status for everything: a refusal is one too, and raises nothing."""
        try:
            return completed(await self.run(request))
        except FableExecError as error:
            return refused(error)

    async def stream(self, request: RunRequest) -> AsyncGenerator[WorkspaceEvent, None]:
        """Started, output as it comes, what was refused, finished. An iterator that is closed early ends the command first.

        A reader that takes its time holds the command up, not the memory of this process.

        Raises:
            FableExecError: as `run` does, in place of the first event.
        """
        events: asyncio.Queue[WorkspaceEvent] = asyncio.Queue(maxsize=1)
        running = asyncio.ensure_future(self.run(request, events.put))
        try:
            while not (running.done() and events.empty()):
                coming = asyncio.ensure_future(events.get())
                try:
                    await asyncio.wait({coming, running}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not coming.done():
                        coming.cancel()
                if coming.done():
                    yield coming.result()
            running.result()
        finally:
            await end_and_wait(running)

    def launch(
        self,
        argv: tuple[str, ...] | list[str],
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        *,
        token: str | None = None,
        timeout_seconds: float | None = None,
        idle_timeout_seconds: float | None = None,
        on_output_limit: OnOutputLimit | None = None,
    ) -> LaunchSpec:
        """What a framework that owns its processes starts instead of `argv`. Starts nothing itself.

        The process runs under the broker's policy, with a write lock of its own: what is unlocked here is not unlocked there.

        Args:
            env: variables that the policy lets requests set.
            cwd: a directory of the workspace, as the view names it.
            token: the administrator's, with which the process starts unlocked.
            timeout_seconds: None is the longest that the policy allows, for sessions that are fed one command after the other.
            on_output_limit: None is the policy's. With "truncate" all output passes through, and none ends the process.

        Raises:
            Denied: the token is wrong, or the policy refuses a variable; WritesLocked: it unlocks nothing at all.
            InvalidRequest: an argument is not of its form. ExtraMissing: the extra `cli` is not installed.
        """
        if token is not None:
            self._launch_lock.unlock(token)
            self._launch_lock.lock()
        request = RunRequest(
            tuple(argv),
            env=env or {},
            cwd=cwd,
            timeout_seconds=timeout_seconds,
            idle_timeout_seconds=idle_timeout_seconds,
            on_output_limit=on_output_limit,
        )
        return launch_spec(self.policy, self._wire(request, request.command, stream=False), unlocked=token is not None)

    # Files

    async def read_bytes(self, path: str) -> bytes:
        """All of a file.

        Raises:
            PathError: it is not there, or (reason "too-large", EFBIG) larger than one read gives (`max_output_bytes`).
        """
        found = await self._broker.inspect_files(self._view.inner(path))
        if found.truncated:
            raise PathError(
                f"{path!a:.200} has {found.total_bytes} bytes, more than one read gives: {self.policy.max_output_bytes}",
                reason="too-large",
                path=path,
                errno=errno.EFBIG,
            )
        return found.data

    async def inspect(self, path: str, max_bytes: int | None = None) -> InspectResult:
        """The first bytes of a file, and how many there are: at most `max_bytes`, and never more than the policy's cap."""
        return self._named(await self._broker.inspect_files(self._view.inner(path), max_bytes))

    async def write_bytes(self, path: str, data: bytes, *, expected_hash: str | None = None) -> WriteResult:
        """Give a file exactly `data`, atomically and durably; missing parents are made. See `write_file` of the broker."""
        return self._named(await self._broker.write_file(self._view.inner(path), data, expected_hash=expected_hash))

    async def append(self, path: str, data: bytes, *, expected_hash: str | None = None) -> AppendResult:
        """Add `data` to the end of a file, which is created if there is none."""
        return self._named(await self._broker.append(self._view.inner(path), data, expected_hash=expected_hash))

    async def edit(self, path: str, old: str | bytes, new: str | bytes, *, expected_hash: str | None = None) -> WriteResult:
        """Replace the one place where `old` stands; Conflict if it is absent or stands there more than once."""
        return self._named(await self._broker.edit_file(self._view.inner(path), old, new, expected_hash=expected_hash))

    async def list_dir(self, path: str = ".", *, max_entries: int | None = None) -> ListResult:
        """The entries of a directory, sorted by name."""
        return self._named(await self._broker.list_directory(self._view.inner(path), max_entries=max_entries))

    async def stat(self, path: str) -> StatResult:
        """Kind, size, mode and time of a path; a link is described, not followed."""
        return self._named(await self._broker.stat_path(self._view.inner(path)))

    async def make_dir(self, path: str) -> MakeDirectoryResult:
        """Make a directory and the parents it lacks; one that is there already is no error."""
        return self._named(await self._broker.make_directory(self._view.inner(path)))

    async def move(self, source: str, destination: str, *, replace: bool = False) -> MoveResult:
        """Rename within the workspace; an existing destination is PathExists unless `replace`."""
        inner = (self._view.inner(source), self._view.inner(destination))
        moved = await self._broker.move_path(*inner, replace=replace)
        outer = self._view.outer
        return attrs.evolve(moved, source=outer(moved.source), destination=outer(moved.destination))

    async def remove(self, path: str, *, recursive: bool = False) -> RemoveResult:
        """Remove a file, a link itself, or an empty directory; with `recursive` a directory with all below it."""
        return self._named(await self._broker.remove_path(self._view.inner(path), recursive=recursive))

    async def exists(self, path: str) -> bool:
        """Whether something has that name, a link that leads nowhere too.

        Raises:
            PathDenied: the rules refuse the path. PathNotFound: the workspace itself is gone (reason "workspace-gone").
        """
        try:
            await self.stat(path)
        except PathNotFound as missing:
            if missing.reason == "workspace-gone":
                raise
            return False
        except PathNotDirectory:
            return False
        return True

    async def realpath(self, path: str) -> str:
        """The one absolute name of a path that is there. It differs only in spelling: no path leads through a link.

        Raises:
            PathDenied: it is a link, or one is on the way (reason "symlink"). PathNotFound: nothing is there.
        """
        found = await self.stat(path)
        if found.kind == "symlink":
            raise PathDenied(f"path {path!a:.200} refused (symlink): links are not followed", reason="symlink", path=path)
        return found.path

    async def glob(self, pattern: str, path: str = ".", *, max_matches: int | None = None) -> GlobResult:
        """The paths below the directory `path` that fit, such as ``src/**/*.{py,pyi}``; links are matched and never entered.

        Directories that the path rules protect are left out. Bounded in matches, in directories looked at and in time.
        """
        wanted = PathPatterns.parse(pattern)
        limit = min(MAX_MATCHES, MAX_MATCHES if max_matches is None else rules.count(max_matches, "max_matches"))
        found = await find_paths(self._broker.list_directory, wanted, self._view.inner(path), limit)
        return GlobResult(matches=tuple(map(self._view.outer, found.matches)), truncated=found.truncated)

    async def grep(
        self,
        query: str,
        path: str = ".",
        *,
        name_pattern: str | None = None,
        ignore_case: bool = False,
        max_matches: int | None = None,
    ) -> SearchResult:
        """Lines that hold `query`, which is plain text, in the files below `path`; bounded in matches, bytes and time."""
        found = await self._broker.search_files(
            query, self._view.inner(path), name_pattern=name_pattern, ignore_case=ignore_case, max_matches=max_matches
        )
        matches = tuple(attrs.evolve(match, path=self._view.outer(match.path)) for match in found.matches)
        return attrs.evolve(found, matches=matches)

    # Within

    async def _command_of(self, request: RunRequest, *, stream: bool) -> ExecuteCommand:
        command = request.command
        if isinstance(command, str):
            command = shell_command(command, await self._broker.probe())
        return self._wire(request, command, stream=stream)

    def _wire(self, request: RunRequest, command: str | tuple[str, ...], *, stream: bool) -> ExecuteCommand:
        return ExecuteCommand(
            command=command,
            cwd=None if request.cwd is None else self._view.inner(request.cwd),
            env=request.env,
            stdin=request.stdin,
            timeout_seconds=request.timeout_seconds,
            idle_timeout_seconds=request.idle_timeout_seconds,
            on_output_limit=request.on_output_limit,
            stream=stream,
        )

    def _named(self, result: _OfPath) -> _OfPath:
        """The result with the view's name for its path."""
        return attrs.evolve(result, path=self._view.outer(result.path))


def _as_missing(refusal: ExecutableDenied, program: str, policy: BrokerPolicy) -> LaunchFailed | None:
    """Tell a program that is nowhere from one that is refused; None for that one. Only bare names and listed paths are looked up,
    so that nobody learns what else is on the host."""
    if os.sep in program and program not in policy.allowed_executables:
        return None
    if shutil.which(program, mode=os.F_OK, path=os.pathsep.join(trusted_path(policy, os.environ))) is not None:
        return None
    return LaunchFailed(f"{program!a:.200}: not found; {refusal}", stage="exec", errno=errno.ENOENT)

"""The workspace for frameworks without asyncio: the same calls, which wait. One thread runs the loop while it is open."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from types import TracebackType
from typing import Any, TypeVar

from fable_exec.adapters.statuses import Completed
from fable_exec.adapters.values import GlobResult, LaunchSpec, RunRequest, WorkspaceEvent
from fable_exec.adapters.views import View
from fable_exec.adapters.workspace import AgentWorkspace
from fable_exec.broker import AsyncExecutionBroker
from fable_exec.calls.listening import check_blocking_listener
from fable_exec.client import AsyncBrokerClient
from fable_exec.errors import BrokerGone, Conflict, InvalidRequest
from fable_exec.loopthread import LoopThread
from fable_exec.outcome import OnOutputLimit
from fable_exec.policy import BrokerPolicy
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

__all__ = ["BlockingAgentWorkspace"]

_T = TypeVar("_T")


class BlockingAgentWorkspace:
    """The calls of AgentWorkspace from any number of threads. Close it, or use it in `with`.

    It takes the broker over: the broker belongs to its loop from now on, and `close` ends both and the thread. An exception that
    reaches a waiting thread, such as KeyboardInterrupt, ends the command of that call before it goes on.

    Args:
        broker: not used in any loop yet.
    """

    def __init__(self, broker: AsyncExecutionBroker | AsyncBrokerClient, *, view: View = "host") -> None:
        self._workspace = AgentWorkspace(broker, view=view)
        self._loop = LoopThread("workspace")
        self._broker = broker
        self._left_open = weakref.finalize(self, _left_open, self._loop, broker)
        self._left_open.atexit = False  # the launcher ends with the process, and the thread is a daemon

    @property
    def policy(self) -> BrokerPolicy:
        """What the broker goes by."""
        return self._workspace.policy

    @property
    def root(self) -> str:
        """What the view calls the workspace itself."""
        return self._workspace.root

    def call(self, function: Callable[[AgentWorkspace], Coroutine[Any, Any, _T]]) -> _T:
        """Wait for a coroutine function that gets the asyncio workspace; it runs in the loop, so it must not block."""
        return self._loop.wait(self._work_of(function))

    async def call_elsewhere(self, function: Callable[[AgentWorkspace], Coroutine[Any, Any, _T]]) -> _T:
        """The same, awaited in an event loop of the caller's. A cancellation goes on once the work has ended; no thread waits."""
        return await self._loop.wait_elsewhere(self._work_of(function))

    def _work_of(self, function: Callable[[AgentWorkspace], Coroutine[Any, Any, _T]]) -> Coroutine[Any, Any, _T]:
        work = function(self._workspace)
        if not asyncio.iscoroutine(work):
            raise InvalidRequest(f"function must be a coroutine function; what it gave is {type(work).__name__}")
        return work

    def probe(self) -> ProbeResult:
        """See AgentWorkspace.probe."""
        return self._loop.wait(self._workspace.probe())

    # Commands

    def run(self, request: RunRequest, on_event: Callable[[WorkspaceEvent], object] | None = None) -> CommandResult:
        """See AgentWorkspace.run. `on_event` is called in the loop's thread and must not block; the next event waits for it."""
        check_blocking_listener(on_event)
        return self._loop.wait(self._workspace.run(request, on_event))

    def complete(self, request: RunRequest) -> Completed:
        """See AgentWorkspace.complete."""
        return self._loop.wait(self._workspace.complete(request))

    def stream(self, request: RunRequest) -> Generator[WorkspaceEvent, None, None]:
        """See AgentWorkspace.stream. Close the iterator, or take it to its end."""
        events = self._workspace.stream(request)
        try:
            while (event := self._loop.wait(_next(events))) is not None:
                yield event
        finally:
            # Where nothing can be asked of the loop it has ended all, or is another process's, or ends what is dropped in it.
            with contextlib.suppress(BrokerGone, Conflict):
                self._loop.wait(_close(events))

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
        """See AgentWorkspace.launch."""
        return self._workspace.launch(
            argv,
            env,
            cwd,
            token=token,
            timeout_seconds=timeout_seconds,
            idle_timeout_seconds=idle_timeout_seconds,
            on_output_limit=on_output_limit,
        )

    # Files

    def read_bytes(self, path: str) -> bytes:
        """See AgentWorkspace.read_bytes."""
        return self._loop.wait(self._workspace.read_bytes(path))

    def inspect(self, path: str, max_bytes: int | None = None) -> InspectResult:
        """See AgentWorkspace.inspect."""
        return self._loop.wait(self._workspace.inspect(path, max_bytes))

    def write_bytes(self, path: str, data: bytes, *, expected_hash: str | None = None) -> WriteResult:
        """See AgentWorkspace.write_bytes."""
        return self._loop.wait(self._workspace.write_bytes(path, data, expected_hash=expected_hash))

    def append(self, path: str, data: bytes, *, expected_hash: str | None = None) -> AppendResult:
        """See AgentWorkspace.append."""
        return self._loop.wait(self._workspace.append(path, data, expected_hash=expected_hash))

    def edit(self, path: str, old: str | bytes, new: str | bytes, *, expected_hash: str | None = None) -> WriteResult:
        """See AgentWorkspace.edit."""
        return self._loop.wait(self._workspace.edit(path, old, new, expected_hash=expected_hash))

    def list_dir(self, path: str = ".", *, max_entries: int | None = None) -> ListResult:
        """See AgentWorkspace.list_dir."""
        return self._loop.wait(self._workspace.list_dir(path, max_entries=max_entries))

    def stat(self, path: str) -> StatResult:
        """See AgentWorkspace.stat."""
        return self._loop.wait(self._workspace.stat(path))

    def make_dir(self, path: str) -> MakeDirectoryResult:
        """See AgentWorkspace.make_dir."""
        return self._loop.wait(self._workspace.make_dir(path))

    def move(self, source: str, destination: str, *, replace: bool = False) -> MoveResult:
        """See AgentWorkspace.move."""
        return self._loop.wait(self._workspace.move(source, destination, replace=replace))

    def remove(self, path: str, *, recursive: bool = False) -> RemoveResult:
        """See AgentWorkspace.remove."""
        return self._loop.wait(self._workspace.remove(path, recursive=recursive))

    def exists(self, path: str) -> bool:
        """See AgentWorkspace.exists."""
        return self._loop.wait(self._workspace.exists(path))

    def realpath(self, path: str) -> str:
        """See AgentWorkspace.realpath."""
        return self._loop.wait(self._workspace.realpath(path))

    def glob(self, pattern: str, path: str = ".", *, max_matches: int | None = None) -> GlobResult:
        """See AgentWorkspace.glob."""
        return self._loop.wait(self._workspace.glob(pattern, path, max_matches=max_matches))

    def grep(
        self,
        query: str,
        path: str = ".",
        *,
        name_pattern: str | None = None,
        ignore_case: bool = False,
        max_matches: int | None = None,
    ) -> SearchResult:
        """See AgentWorkspace.grep."""
        return self._loop.wait(
            self._workspace.grep(query, path, name_pattern=name_pattern, ignore_case=ignore_case, max_matches=max_matches)
        )

    # End

    def close(self) -> None:
        """End what runs, the broker and the thread. Idempotent; later calls are BrokerGone."""
        self._left_open.detach()
        self._loop.end(self._broker.close)

    def __enter__(self) -> BlockingAgentWorkspace:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _left_open(loop: LoopThread, broker: AsyncExecutionBroker | AsyncBrokerClient) -> None:
    """Nobody has the workspace any more, and nobody closed it: warn as Python does of an open file, and end all the same."""
    try:
        if not loop.is_inherited:
            warnings.warn("unclosed agent workspace", ResourceWarning, stacklevel=3, source=loop)
    finally:
        loop.end(broker.close)


async def _next(events: AsyncGenerator[WorkspaceEvent, None]) -> WorkspaceEvent | None:
    return await anext(events, None)


async def _close(events: AsyncGenerator[WorkspaceEvent, None]) -> None:
    await events.aclose()

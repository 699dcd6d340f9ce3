"""The workspace for frameworks without asyncio: the same calls, which wait. One thread runs the loop while it is open."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import warnings
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar

from fable_exec._sys.forks import ProcessLock
from fable_exec.adapters.statuses import Completed
from fable_exec.adapters.values import GlobResult, LaunchSpec, RunRequest, WorkspaceEvent
from fable_exec.adapters.views import View
from fable_exec.adapters.workspace import AgentWorkspace
from fable_exec.broker import AsyncExecutionBroker
from fable_exec.calls.listening import check_blocking_listener
from fable_exec.client import AsyncBrokerClient
from fable_exec.errors import BrokerGone, Conflict, InvalidRequest
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
        self._portal = _Portal()
        self._broker = broker
        self._left_open = weakref.finalize(self, _Portal.left_open, self._portal, broker)
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
        work = function(self._workspace)
        if not asyncio.iscoroutine(work):
            raise InvalidRequest(f"function must be a coroutine function; what it gave is {type(work).__name__}")
        return self._portal.wait(work)

    def probe(self) -> ProbeResult:
        """See AgentWorkspace.probe."""
        return self._portal.wait(self._workspace.probe())

    # Commands

    def run(self, request: RunRequest, on_event: Callable[[WorkspaceEvent], object] | None = None) -> CommandResult:
        """See AgentWorkspace.run. `on_event` is called in the loop's thread and must not block; the next event waits for it."""
        check_blocking_listener(on_event)
        return self._portal.wait(self._workspace.run(request, on_event))

    def complete(self, request: RunRequest) -> Completed:
        """See AgentWorkspace.complete."""
        return self._portal.wait(self._workspace.complete(request))

    def stream(self, request: RunRequest) -> Generator[WorkspaceEvent, None, None]:
        """See AgentWorkspace.stream. Close the iterator, or take it to its end."""
        events = self._workspace.stream(request)
        try:
            while (event := self._portal.wait(_next(events))) is not None:
                yield event
        finally:
            # Where nothing can be asked of the loop it has ended all, or is another process's, or ends what is dropped in it.
            with contextlib.suppress(BrokerGone, Conflict):
                self._portal.wait(_close(events))

    def launch(
        self,
        argv: tuple[str, ...] | list[str],
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        *,
        token: str | None = None,
        timeout_seconds: float | None = None,
        idle_timeout_seconds: float | None = None,
        on_output_limit: Literal["kill", "truncate"] | None = None,
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
        return self._portal.wait(self._workspace.read_bytes(path))

    def inspect(self, path: str, max_bytes: int | None = None) -> InspectResult:
        """See AgentWorkspace.inspect."""
        return self._portal.wait(self._workspace.inspect(path, max_bytes))

    def write_bytes(self, path: str, data: bytes, *, expected_hash: str | None = None) -> WriteResult:
        """See AgentWorkspace.write_bytes."""
        return self._portal.wait(self._workspace.write_bytes(path, data, expected_hash=expected_hash))

    def append(self, path: str, data: bytes, *, expected_hash: str | None = None) -> AppendResult:
        """See AgentWorkspace.append."""
        return self._portal.wait(self._workspace.append(path, data, expected_hash=expected_hash))

    def edit(self, path: str, old: str | bytes, new: str | bytes, *, expected_hash: str | None = None) -> WriteResult:
        """See AgentWorkspace.edit."""
        return self._portal.wait(self._workspace.edit(path, old, new, expected_hash=expected_hash))

    def list_dir(self, path: str = ".", *, max_entries: int | None = None) -> ListResult:
        """See AgentWorkspace.list_dir."""
        return self._portal.wait(self._workspace.list_dir(path, max_entries=max_entries))

    def stat(self, path: str) -> StatResult:
        """See AgentWorkspace.stat."""
        return self._portal.wait(self._workspace.stat(path))

    def make_dir(self, path: str) -> MakeDirectoryResult:
        """See AgentWorkspace.make_dir."""
        return self._portal.wait(self._workspace.make_dir(path))

    def move(self, source: str, destination: str, *, replace: bool = False) -> MoveResult:
        """See AgentWorkspace.move."""
        return self._portal.wait(self._workspace.move(source, destination, replace=replace))

    def remove(self, path: str, *, recursive: bool = False) -> RemoveResult:
        """See AgentWorkspace.remove."""
        return self._portal.wait(self._workspace.remove(path, recursive=recursive))

    def exists(self, path: str) -> bool:
        """See AgentWorkspace.exists."""
        return self._portal.wait(self._workspace.exists(path))

    def realpath(self, path: str) -> str:
        """See AgentWorkspace.realpath."""
        return self._portal.wait(self._workspace.realpath(path))

    def glob(self, pattern: str, path: str = ".", *, max_matches: int | None = None) -> GlobResult:
        """See AgentWorkspace.glob."""
        return self._portal.wait(self._workspace.glob(pattern, path, max_matches=max_matches))

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
        return self._portal.wait(
            self._workspace.grep(query, path, name_pattern=name_pattern, ignore_case=ignore_case, max_matches=max_matches)
        )

    # End

    def close(self) -> None:
        """End what runs, the broker and the thread. Idempotent; later calls are BrokerGone."""
        self._left_open.detach()
        self._portal.end(self._broker)

    def __enter__(self) -> BlockingAgentWorkspace:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class _Portal:
    """One loop in one thread, into which other threads call."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._changing = ProcessLock()
        self._loop: asyncio.AbstractEventLoop | None = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(self._loop,), name="fable_exec workspace", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, _T]) -> _T:
        """The result of `work`. What interrupts the waiting thread cancels the work, and waits for its end."""
        with self._changing:
            call = _Call(self._open_loop(work), work)
        try:
            call.ended.wait()
        except BaseException:
            call.cancel()
            call.ended.wait()
            raise
        return call.result()

    def _open_loop(self, work: Coroutine[Any, Any, Any]) -> asyncio.AbstractEventLoop:
        """Raises what says that nothing can be asked of the loop from here, now."""
        if self._loop is None:
            refusal: Exception = BrokerGone("the workspace is closed")
        elif os.getpid() != self._owner:
            refusal = Conflict.inherited("this workspace", self._owner)
        elif threading.current_thread() is self._thread:
            refusal = Conflict("this is the workspace's own thread, which would wait for itself", reason="own-thread")
        else:
            return self._loop
        work.close()
        raise refusal

    def left_open(self, broker: AsyncExecutionBroker | AsyncBrokerClient) -> None:
        """Nobody has the workspace any more, and nobody closed it: warn as Python does of an open file, and end all the same."""
        try:
            if os.getpid() == self._owner:
                warnings.warn("unclosed agent workspace", ResourceWarning, stacklevel=3, source=self)
        finally:
            self.end(broker)

    def end(self, broker: AsyncExecutionBroker | AsyncBrokerClient) -> None:
        """Close the broker in the loop, then end the loop and the thread. Idempotent."""
        with self._changing:
            loop, self._loop = self._loop, None
        if loop is None or os.getpid() != self._owner:
            return
        closing = asyncio.run_coroutine_threadsafe(_close_all(broker), loop)
        if threading.current_thread() is self._thread:
            closing.add_done_callback(lambda _: loop.stop())  # dropped there: it cannot wait for itself
            return
        try:
            closing.result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        _run_to_its_stop(loop)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _run_to_its_stop(loop: asyncio.AbstractEventLoop) -> None:
    """Run it until `stop`. What a listener raises to end a whole program leaves the loop too; who called it gets it all the same,
    and the others' calls go on."""
    while True:
        try:
            return loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            continue


class _Call(Generic[_T]):
    """One coroutine, run in the loop for another thread. `ended` is set when nothing of it runs any more."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _T]) -> None:
        self.ended = threading.Event()
        self._loop = loop
        self._work = work
        loop.call_soon_threadsafe(self._begin)

    def cancel(self) -> None:
        """Cancel it; it has begun by then, or is about to."""
        self._loop.call_soon_threadsafe(lambda: self._task.cancel())

    def result(self) -> _T:
        """What came of it, once it has ended."""
        try:
            return self._task.result()
        except asyncio.CancelledError:
            raise BrokerGone("the workspace was closed meanwhile") from None

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(lambda _: self.ended.set())


async def _close_all(broker: AsyncExecutionBroker | AsyncBrokerClient) -> None:
    """End what other threads wait for, then the broker."""
    working = asyncio.all_tasks() - {asyncio.current_task()}
    for task in working:
        task.cancel()
    if working:
        await asyncio.wait(working)
    await broker.close()


async def _next(events: AsyncGenerator[WorkspaceEvent, None]) -> WorkspaceEvent | None:
    return await anext(events, None)


async def _close(events: AsyncGenerator[WorkspaceEvent, None]) -> None:
    await events.aclose()

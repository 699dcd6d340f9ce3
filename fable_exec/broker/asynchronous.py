"""The broker for asyncio: commands run natively on the loop, file work in threads, by the very same rules.

Cancelling a task that runs a command ends the command's whole tree, and only then does the cancellation go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from types import TracebackType

from fable_exec import writelock
from fable_exec.broker.commands import Prepared, input_closed
from fable_exec.broker.confined import ConfinedCommands, MakesCommands
from fable_exec.broker.core import ExecutionBroker
from fable_exec.broker.dropped import Started as StartedWork
from fable_exec.broker.explain import Explanation
from fable_exec.broker.recording import Operation
from fable_exec.broker.started import exited_event, output_event
from fable_exec.calls import AsyncCalls, OnEvent
from fable_exec.calls.building import as_bytes
from fable_exec.calls.listening import check_listener
from fable_exec.errors import BrokerGone, FableExecError
from fable_exec.policy import BrokerPolicy
from fable_exec.protocol import (
    CommandResult,
    Event,
    ExecuteCommand,
    ReadCommand,
    ReadCommandResult,
    Request,
    Result,
    StartCommand,
    Started,
)
from fable_exec.runner import AsyncRunningCommand
from fable_exec.runner import Exited as RunnerExited
from fable_exec.runner import Output as RunnerOutput

__all__ = ["AsyncExecutionBroker", "AsyncStartedCommand"]

_STARTING_STEP_SECONDS = 0.005
_LOOK_SECONDS = 0.25
"""How long a waiting read occupies a thread before the task can be cancelled."""


class AsyncExecutionBroker(AsyncCalls):
    """The asyncio twin of ExecutionBroker: same arguments, same calls, same errors, for one loop.

    `blocking` is the broker behind it, which threads of the same program may use at the same time.
    """

    def __init__(
        self, policy: BrokerPolicy, *, clock: Callable[[], float] = writelock.now, commands: MakesCommands = ConfinedCommands
    ) -> None:
        self.policy = policy
        self.blocking = ExecutionBroker(policy, clock=clock, commands=commands)
        self._commands, self._confined, self._holdings = self.blocking.command_parts

    async def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        """Do what `request` says; see ExecutionBroker.perform. An `on_event` that returns an awaitable is awaited."""
        check_listener(on_event)
        if isinstance(request, ExecuteCommand):
            return await self._execute(request, on_event)
        if isinstance(request, ReadCommand) and request.wait_seconds > _LOOK_SECONDS:
            return await self._read(request)
        return await asyncio.to_thread(self.blocking.perform, request)

    async def unlock_writes(
        self, token: str, *, expires_in_seconds: float | None = None, paths: Iterable[str] | None = None
    ) -> None:
        """Unlock workspace writes; see ExecutionBroker.unlock_writes."""
        self.blocking.unlock_writes(token, expires_in_seconds=expires_in_seconds, paths=paths)

    async def lock_writes(self) -> None:
        """Lock workspace writes again."""
        self.blocking.lock_writes()

    @property
    def writes_enabled(self) -> bool:
        """Whether an unlock is in force, for some paths at least."""
        return self.blocking.writes_enabled

    async def explain(self, command: Iterable[str], cwd: str | None = None) -> Explanation:
        """What would happen to `command` now; see ExecutionBroker.explain."""
        return await asyncio.to_thread(self.blocking.explain, command, cwd)

    async def close(self) -> None:
        """End everything that still runs and release everything. Idempotent."""
        closing = asyncio.ensure_future(asyncio.to_thread(self.blocking.close))
        try:
            await asyncio.shield(closing)
        finally:
            if not closing.done():
                await asyncio.wait({closing})
            for started in self._holdings.handles(AsyncStartedCommand):
                await started.close()

    async def __aenter__(self) -> AsyncExecutionBroker:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def _execute(self, request: ExecuteCommand, on_event: OnEvent | None) -> CommandResult:
        if on_event is not None:
            async with await self._start_for(request) as started:
                async for event in started.events():
                    told = on_event(event)
                    if isinstance(told, Awaitable):
                        await told
                result = await started.wait()
            assert result is not None
            return result
        with self.blocking.operation(request) as operation:
            prepared = await self._prepared(request, operation)
            with self._commands.launching(prepared):
                outcome = await self._confined.run_async(prepared.command, read_only=prepared.read_only)
            return self._commands.report(prepared, outcome)

    async def _start(self, request: StartCommand) -> AsyncStartedCommand:
        return await self._start_for(request)

    async def _start_for(self, request: ExecuteCommand | StartCommand) -> AsyncStartedCommand:
        with self.blocking.operation(request) as operation:
            prepared = await self._prepared(request, operation)
            with self._commands.launching(prepared):
                running = await self._confined.start_async(prepared.command, read_only=prepared.read_only)
            started = StartedWork(running, prepared, self._commands, asyncio.get_running_loop())
            handle = AsyncStartedCommand(started, partial(self._holdings.forget, started), keeper=self)
            self._holdings.hold(handle, started)
            try:
                self.blocking.refuse_closed()  # meanwhile; `close` may have looked before it was noted
            except BrokerGone:
                await handle.close()
                raise
            return handle

    async def _prepared(self, request: ExecuteCommand | StartCommand, operation: Operation) -> Prepared:
        """Checking takes microseconds, unless an audit line has to be written, or what it needs is not there yet."""
        if operation.is_recorded or not self._commands.decides_quickly():
            return await asyncio.to_thread(self._commands.prepare, request, operation)
        return self._commands.prepare(request, operation)

    async def _read(self, request: ReadCommand) -> ReadCommandResult:
        """Wait in short steps, so that a cancelled task leaves no thread behind that waits on."""
        give_up_at = asyncio.get_running_loop().time() + request.wait_seconds
        while True:
            left = max(0.0, give_up_at - asyncio.get_running_loop().time())
            found = await self.read_command(request.handle, min(left, _LOOK_SECONDS))
            if found.stdout_data or found.stderr_data or not found.running or not left:
                return found


class AsyncStartedCommand:
    """See fable_exec.calls.AsyncCommandHandle. `on_end` is called when the command is over and everything is released.

    `keeper` stays as long as somebody has this handle.
    """

    def __init__(self, started: StartedWork[AsyncRunningCommand], on_end: Callable[[], None], keeper: object = None) -> None:
        self._keeper = keeper
        self._running = started.running
        self._prepared = started.prepared
        self._work = started.work
        self._on_end = on_end
        self._result: CommandResult | None = None
        self._ended = False

    @property
    def command(self) -> tuple[str, ...]:
        """What was executed: the resolved executable and the arguments."""
        return self._prepared.executed

    async def events(self) -> AsyncIterator[Event]:
        """`Started`, every piece of output as it comes, and `Exited`. Events that were taken are gone."""
        event = await self._until_started()
        yield Started(sequence=0)
        sequence = 0
        while (event := event or await self._next_event()) is not None:
            sequence += 1
            if isinstance(event, RunnerExited):
                yield exited_event(self._finish(event), sequence)
                return
            yield output_event(event, sequence)
            event = None

    async def write_stdin(self, data: str | bytes) -> int:
        """Send input, waiting for the command to read it; see CommandHandle."""
        given = as_bytes(data, "data")
        self._work.admit_input(self._prepared)
        try:
            await self._running.write_stdin(given)
        except BrokenPipeError:
            raise input_closed(kept_open=self._prepared.command.open_stdin) from None
        return len(given)

    async def close_stdin(self) -> None:
        """Let the command see the end of its input."""
        self._running.close_stdin()

    async def cancel(self) -> None:
        """End the whole tree; the outcome is `cancelled` unless the command had ended by itself."""
        self._running.cancel()

    async def wait(self, timeout_seconds: float | None = None) -> CommandResult | None:
        """See AsyncCommandHandle."""
        if self._result is None:
            try:
                with self._work.launching(self._prepared):
                    outcome = await self._running.wait(timeout_seconds)
            except BaseException as error:
                self._prepared.operation.failed(error)
                self._end()
                raise
            if outcome is None:
                return None
            self._end()
            self._result = self._work.report(self._prepared, outcome)
        return self._result

    async def close(self) -> None:
        """End the command if it still runs and release everything; in a forked child the copies here. Idempotent."""
        if self._ended:
            return
        if self._running.inherited:
            self._running.abandon()
            self._end()
            return
        self._running.cancel()
        try:
            await self.wait()
        except FableExecError:
            pass  # it never ran, so there is nothing to end

    async def __aenter__(self) -> AsyncStartedCommand:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def _until_started(self) -> RunnerOutput | RunnerExited | None:
        """The first event, or None as soon as the launcher has announced the command."""
        coming = asyncio.ensure_future(self._next_event())
        try:
            while self._running.leader_pid is None and not coming.done():
                await asyncio.wait({coming}, timeout=_STARTING_STEP_SECONDS)
        finally:
            if not coming.done():
                coming.cancel()
                await asyncio.wait({coming})
        return None if coming.cancelled() else coming.result()

    async def _next_event(self) -> RunnerOutput | RunnerExited | None:
        try:
            with self._work.launching(self._prepared):
                return await self._running.next_event()
        except FableExecError:
            self._end()
            raise

    def _finish(self, event: RunnerExited) -> CommandResult:
        if self._result is None:
            self._result = self._work.report(self._prepared, event.outcome)
        self._end()
        return self._result

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._on_end()

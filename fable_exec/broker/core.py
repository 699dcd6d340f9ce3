"""The broker in this process: may it, and then do it. One object, many threads.

It owns the pinned workspace, the launcher program behind the runner, the audit log and the background commands, and gives all of
it back in `close`. It has no thread of its own besides one for each background command that runs.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from types import TracebackType
from typing import Any

from fable_exec import writelock
from fable_exec._sys.forks import ProcessLock
from fable_exec.broker.arguments import ArgumentJudge
from fable_exec.broker.background import BackgroundCommands
from fable_exec.broker.commands import CommandWork
from fable_exec.broker.confined import ConfinedCommands, MakesCommands
from fable_exec.broker.describing import SelfDescription
from fable_exec.broker.dropped import Started as StartedWork
from fable_exec.broker.environment import base_environment
from fable_exec.broker.explain import Explanation
from fable_exec.broker.files import FileWork
from fable_exec.broker.gate import Gate
from fable_exec.broker.holdings import Holdings
from fable_exec.broker.later import LaterDoor
from fable_exec.broker.lookalikes import telling_what_looks_alike
from fable_exec.broker.paths import DoorPaths
from fable_exec.broker.recording import Operation, Recorder, told_of
from fable_exec.broker.started import StartedCommand
from fable_exec.calls import BlockingCalls, OnEvent
from fable_exec.calls.listening import check_blocking_listener, tell
from fable_exec.decision import UnlockScope
from fable_exec.errors import AuditUnavailable, BrokerGone, FableExecError, InvalidRequest
from fable_exec.executables import resolve_executables
from fable_exec.pathguard import Workspace
from fable_exec.policy import BrokerPolicy
from fable_exec.protocol import (
    Append,
    Cancel,
    CancelResult,
    CommandResult,
    EditFile,
    ExecuteCommand,
    InspectFiles,
    ListCommands,
    ListDirectory,
    MakeDirectory,
    MovePath,
    Probe,
    ProbeResult,
    ReadCommand,
    RemovePath,
    Request,
    Result,
    SearchFiles,
    StartCommand,
    StartResult,
    StatPath,
    WriteFile,
    WriteStdin,
)
from fable_exec.runner import Launchers
from fable_exec.runtimes import runtime_paths, system_links
from fable_exec.writelock import WriteLock

__all__ = ["ExecutionBroker"]

_Act = Callable[[Any, Operation], Result]


class ExecutionBroker(BlockingCalls):
    """Does what one policy allows. Close it, or use it in `with`.

    The launcher program is started with the first command; a broker that only works on files starts no process.

    Args:
        clock: seconds for the expiry of unlocks and the back-off after wrong tokens.
        launchers: of the policy's workspace, begun already by a program that serves; the broker owns them from now on.
        commands: makes what runs commands; something else only for tests (fable_exec.testing.ScriptedRunner).

    Raises:
        PolicyError: an allow-list entry is ambiguous, or none can be found; a document of argument rules has faults; what the
            policy states in `assurance` is not true of it here.
        AuditUnavailable: the audit log cannot be used.
        PathError: the workspace is no longer there.
    """

    def __init__(
        self,
        policy: BrokerPolicy,
        *,
        clock: Callable[[], float] = writelock.now,
        launchers: Launchers | None = None,
        commands: MakesCommands = ConfinedCommands,
    ) -> None:
        if not isinstance(policy, BrokerPolicy):
            raise TypeError(f"policy must be a BrokerPolicy, not {type(policy).__name__}")
        self.policy = policy
        self._open(commands, launchers)
        self._lock = WriteLock(policy.write_token_digest, clock)
        self._paths = DoorPaths(self._workspace, policy.paths)
        self._gate = Gate(policy, self._lock, self._confined, self._arguments)
        environment = base_environment(policy, self._executables.path, os.environ)
        later = LaterDoor(policy, self._workspace, self._confined.sentry)
        self._files: FileWork = FileWork(policy, self._workspace, self._paths, self._gate, later)
        self._commands = CommandWork(policy, self._executables, environment, self._paths, self._gate)
        self._description = SelfDescription(policy, self._executables, self._arguments, self._commands, self._confined)
        self._background = BackgroundCommands(policy.max_output_bytes, policy.limits.max_in_flight)
        self._closing = ProcessLock()
        self._closed = False
        self._holdings = Holdings(self._workspace, self._executables, self._recorder, self._confined, self._background)
        self._left_open = weakref.finalize(self, self._holdings.left_open)
        self._left_open.atexit = False  # the launcher ends with the process

    def _open(self, commands: MakesCommands, launchers: Launchers | None) -> None:
        """Take hold of all that may be refused; when something is, all of it is given back, the launchers too."""
        policy = self.policy
        with ExitStack() as undo:
            if launchers is not None:
                undo.callback(launchers.close)
            self._arguments = ArgumentJudge(policy)
            self._executables = resolve_executables(policy, os.environ)
            undo.callback(self._executables.close)
            self._workspace = undo.enter_context(Workspace.open(policy.workspace))
            self._recorder = Recorder(policy)
            self._confined = commands(
                policy,
                self._workspace,
                (*system_links(), *runtime_paths(self._executables), *policy.confinement.runtime_read_paths),
                launchers,
            )
            undo.callback(self._confined.close)
            self._confined.check_what_is_stated()
            undo.pop_all()

    # Requests

    def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        """Do what `request` says; `on_event` gets the events of an ExecuteCommand.

        Raises:
            FableExecError: a refusal, a malformed value or a fact; nothing was done.
            BrokerGone: the broker is closed.
        """
        check_blocking_listener(on_event)
        with self.operation(request) as operation:
            if on_event is not None and isinstance(request, ExecuteCommand):
                return self._execute_streaming(request, operation, on_event)
            with telling_what_looks_alike(self._workspace):
                result = _ACTS[type(request)](self)(request, operation)
            if operation.is_recorded and not isinstance(result, StartResult):  # that one is over when its command is
                operation.done(told_of(result))
            return result

    @contextmanager
    def operation(self, request: Request) -> Iterator[Operation]:
        """Around the work on one request: it is refused when the broker is closed, and what goes wrong is written down."""
        self.refuse_closed()
        if self._holdings.dropped:
            self._holdings.dropped.finish()
        operation = self._recorder.begin(request.action)
        try:
            yield operation
        except BaseException as error:
            operation.failed(error)
            if self._closed and isinstance(error, Exception) and _is_of_the_end(error):
                raise BrokerGone("the broker was closed meanwhile") from error
            raise

    def refuse_closed(self) -> None:
        """Raise BrokerGone once `close` has begun."""
        if self._closed:
            raise BrokerGone("the broker is closed")

    # Lock

    def unlock_writes(self, token: str, *, expires_in_seconds: float | None = None, paths: Iterable[str] | None = None) -> None:
        """Unlock workspace writes: for the admin, never for what carries a model's requests.

        Args:
            token: compared in constant time by its SHA-256, also when writes are unlocked already.
            expires_in_seconds: lock again by itself after that.
            paths: unlock write requests below these only; commands then stay locked, since no path binds a command.

        Raises:
            WritesLocked: the policy has no digest, the token is empty, or too many were wrong.
            Denied: the token is wrong.
        """
        self.refuse_closed()
        scope = None if paths is None else self._scope(paths)
        try:
            self._lock.unlock(token, expires_in_seconds, scope)
        except FableExecError as error:
            self._recorder.note("unlock", ok=False, code=error.code, failures=self._lock.failures)
            raise
        shown = None if scope is None else ["/".join(path) or "." for path in scope]
        self._recorder.note("unlock", ok=True, expires_in_seconds=expires_in_seconds, paths=shown)

    def lock_writes(self) -> None:
        """Lock workspace writes again. Commands that run already go on; what they are fed is refused."""
        self.refuse_closed()
        self._lock.lock()
        self._recorder.note("lock")

    @property
    def writes_enabled(self) -> bool:
        """Whether an unlock is in force, for some paths at least."""
        return self._lock.unlocked() is not None

    def _scope(self, paths: Iterable[str]) -> UnlockScope:
        if isinstance(paths, str):
            raise InvalidRequest("paths must be a list of paths, not one text")
        scope = tuple(self._paths.existing(path).components for path in paths)
        if not scope:
            raise InvalidRequest("paths must name at least one path; None is the whole workspace")
        return scope

    # Commands

    def begin_command(self, request: ExecuteCommand | StartCommand) -> StartedCommand:
        """Check and start a command; the caller follows and closes it, and `close` of the broker ends it too."""
        with self.operation(request) as operation:
            return self._started_for(request, operation, keeper=self)

    def _started_for(self, request: ExecuteCommand | StartCommand, operation: Operation, keeper: object = None) -> StartedCommand:
        prepared = self._commands.prepare(request, operation)
        running = self._confined.start(prepared.command, read_only=prepared.read_only)
        started = StartedWork(running, prepared, self._commands)
        handle = StartedCommand(started, partial(self._holdings.forget, started), keeper)
        self._holdings.hold(handle, started)
        try:
            self.refuse_closed()  # meanwhile; `close` may have looked before it was noted
        except BrokerGone:
            handle.close()
            raise
        return handle

    @property
    def command_parts(self) -> tuple[CommandWork, ConfinedCommands, Holdings]:
        """What the asyncio twin drives by itself: the rules for commands, what runs them confined, and who answers for them."""
        return self._commands, self._confined, self._holdings

    def _start(self, request: StartCommand) -> StartedCommand:
        return self.begin_command(request)

    def _execute(self, request: ExecuteCommand, operation: Operation) -> CommandResult:
        prepared = self._commands.prepare(request, operation)
        with self._commands.launching(prepared):
            outcome = self._confined.run(prepared.command, read_only=prepared.read_only)
        return self._commands.report(prepared, outcome)

    def _execute_streaming(self, request: ExecuteCommand, operation: Operation, on_event: OnEvent) -> CommandResult:
        with self._started_for(request, operation) as started:
            for event in started.events():
                tell(on_event, event)
            result = started.wait()
        assert result is not None
        return result

    # Background commands

    def _start_background(self, request: StartCommand, operation: Operation) -> Result:
        return self._background.start(lambda: self._started_for(request, operation), request.keep_stdin_open)

    def _read_background(self, request: ReadCommand, operation: Operation) -> Result:
        self._gate.observe(operation, request.action, handle=request.handle)
        return self._background.read(request)

    def _feed_background(self, request: WriteStdin, operation: Operation) -> Result:
        self._gate.observe(operation, request.action, handle=request.handle, size_bytes=len(request.data))
        return self._background.feed(request)

    def _cancel(self, request: Cancel, operation: Operation) -> Result:
        """Ids of requests are known to the door that took them, never here."""
        self._gate.observe(operation, request.action, handle=request.handle)
        return CancelResult(cancelled=False) if request.handle is None else self._background.cancel(request.handle)

    def _list_background(self, request: ListCommands, operation: Operation) -> Result:
        self._gate.observe(operation, request.action)
        return self._background.summaries()

    # About itself

    def _probe(self, request: Probe, operation: Operation) -> ProbeResult:
        self._gate.observe(operation, request.action)
        return self._description.probe(writes_enabled=self.writes_enabled)

    def explain(self, command: Iterable[str], cwd: str | None = None) -> Explanation:
        """What would happen to `command` now. A malformed command or cwd raises as execute_command would."""
        return self._description.explain(command, cwd, writes_enabled=self.writes_enabled)

    # End

    def close(self) -> None:
        """End everything that still runs, in any thread, and release everything. Idempotent; later requests are BrokerGone.

        In a forked child it releases the child's copies: what the parent runs is the parent's.
        """
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._left_open.detach()
            for started in self._holdings.handles(StartedCommand):
                if not started.inherited:
                    started.cancel()
            self._holdings.give_back(self._background.close, self._close_started)

    def _close_started(self) -> None:
        for started in self._holdings.handles(StartedCommand):
            started.close()

    def __enter__(self) -> ExecutionBroker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _is_of_the_end(error: Exception) -> bool:
    """Whether it may be no more than what a request meets whose broker is being closed: closed descriptors, a closed log."""
    return isinstance(error, AuditUnavailable) or not isinstance(error, FableExecError)


_ACTS: Mapping[type[Request], Callable[[ExecutionBroker], _Act]] = {
    # Looked up anew each time: a broker that held its own methods would hold itself, and stay until garbage is collected.
    Probe: lambda broker: broker._probe,
    InspectFiles: lambda broker: broker._files.inspect,
    WriteFile: lambda broker: broker._files.write,
    ExecuteCommand: lambda broker: broker._execute,
    ListDirectory: lambda broker: broker._files.list,
    StatPath: lambda broker: broker._files.stat,
    MakeDirectory: lambda broker: broker._files.make_directory,
    MovePath: lambda broker: broker._files.move,
    RemovePath: lambda broker: broker._files.remove,
    EditFile: lambda broker: broker._files.edit,
    Append: lambda broker: broker._files.append,
    SearchFiles: lambda broker: broker._files.search,
    StartCommand: lambda broker: broker._start_background,
    ReadCommand: lambda broker: broker._read_background,
    WriteStdin: lambda broker: broker._feed_background,
    Cancel: lambda broker: broker._cancel,
    ListCommands: lambda broker: broker._list_background,
}

"""Commands that are scripted: a broker decides as it always does, and what would run then only looks as if it had.

Allow-list, arguments, lock, paths, environment, output caps and the types of everything are real; no process is ever started. And
it says so: no protection is ever told as active, since nothing held anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs

from fable_exec.broker.confined import ConfinedCommands
from fable_exec.canary import CanaryReport
from fable_exec.confine import Plan
from fable_exec.errors import ConfinementUnavailable, FableExecError
from fable_exec.outcome import Applied, Denial, EndedBy, Outcome, OutputBuffer, Survivor
from fable_exec.pathguard import Workspace
from fable_exec.policy import PROTECTIONS, BrokerPolicy
from fable_exec.runner import AsyncRunningCommand, Command, Launchers, RunningCommand
from fable_exec.runner.driving import LoopWatcher, PollWatcher, drive, drive_in_loop
from fable_exec.runner.exchange import Exchange
from fable_exec.runner.feeding import CommandInput
from fable_exec.runner.streams import Sink, Watcher
from fable_exec.writelock import Unlocked

__all__ = ["Ran", "Reply", "ScriptedRunner"]

_STEP_SECONDS = 0.01
"""How often one that hangs looks whether it was cancelled."""
_NOT_HELD = "scripted by a test: no process was started, and nothing held anything"


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


@attrs.frozen(kw_only=True)
class Reply:
    """What a command is told to have done.

    Args:
        stdout, stderr: what it wrote. The policy's cap holds for it: what is too much ends it, or is cut.
        exit_code, signal: how it ended; a signal instead of a status.
        lasts_seconds: how long it is told to have been silent then. Nobody waits; beyond its deadline it was ended by that.
        hangs: it is silent until it is cancelled, or until its deadline has really come.
        survivors: who is told to have outlived it.
        denials: what is told to have been refused to it.
        error: it was never started, and this is raised, such as a LaunchFailed.
    """

    stdout: bytes = attrs.field(default=b"", converter=_as_bytes)
    stderr: bytes = attrs.field(default=b"", converter=_as_bytes)
    exit_code: int = 0
    signal: int | None = None
    lasts_seconds: float = 0.0
    hangs: bool = False
    survivors: tuple[Survivor, ...] = ()
    denials: tuple[Denial, ...] = ()
    error: FableExecError | None = None


@attrs.define
class Ran:
    """One command that came to be run.

    Args:
        argv: its arguments, the program's bare name first.
        command: all of it, as a launcher would have got it.
        read_only: it was let through as one that may not write.
        stdin: what it was given so far.
    """

    argv: tuple[str, ...]
    command: Command
    read_only: bool
    stdin: bytes = b""


Script = Reply | Callable[[Ran], Reply]


class ScriptedRunner:
    """To be given to a broker of this process: `ExecutionBroker(policy, commands=runner)`, and the same for AsyncExecutionBroker.

    A command that nothing was scripted for is an AssertionError. While writes are locked only commands are let through that are
    known to read, as on a host whose kernel cannot hold the lock.

    Attributes:
        ran: every command that came to be run, in order. What was refused is not among them.
    """

    def __init__(self) -> None:
        self.ran: list[Ran] = []
        self._scripts: list[tuple[tuple[str, ...], Script]] = []

    def when(self, *argv: str, reply: Script) -> ScriptedRunner:
        """Reply so to commands that begin with these words, the program's bare name first. The last one that fits counts.

        Args:
            argv: the words; none of them is any command.
            reply: what they did, or a function of the command that says so.
        """
        self._scripts.append((argv, reply))
        return self

    def __call__(
        self, policy: BrokerPolicy, workspace: Workspace, runtime_paths: tuple[str, ...], launchers: Launchers | None = None
    ) -> ConfinedCommands:
        """What the broker asks for."""
        return _ScriptedCommands(self, policy, workspace, runtime_paths, launchers)

    def reply_to(self, command: Command, *, read_only: bool) -> tuple[Ran, Reply]:
        """Note the command, and say what it does.

        Raises:
            AssertionError: nothing was scripted for it.
        """
        ran = Ran((command.executable.name, *command.argv[1:]), command, read_only, command.stdin or b"")
        self.ran.append(ran)
        for words, script in reversed(self._scripts):
            if ran.argv[: len(words)] == words:
                return ran, script if isinstance(script, Reply) else script(ran)
        raise AssertionError(f"nothing is scripted for {list(ran.argv)}")


class _ScriptedCommands(ConfinedCommands):
    """Everything that would start a process is replaced; a test keeps that complete."""

    def __init__(
        self,
        runner: ScriptedRunner,
        policy: BrokerPolicy,
        workspace: Workspace,
        runtime_paths: tuple[str, ...],
        launchers: Launchers | None,
    ) -> None:
        super().__init__(policy, workspace, runtime_paths, launchers)
        self._scripts = runner
        mode = policy.confinement.mode
        self._told = tuple(Applied(name, mode(name), "unavailable", "", _NOT_HELD) for name in PROTECTIONS if mode(name) != "off")

    def holds_read_only(self) -> bool:
        return False

    def insist(self, *, read_only: bool) -> None:
        """Nothing has to hold what does not run."""

    def check_what_is_stated(self) -> None:
        """To check it takes what a host can do, and nothing of it would come into play."""

    def covers(self, unlocked: Unlocked | None, *, read_only: bool, interprets: bool) -> bool:
        return True

    def applied(self, *, read_only: bool) -> tuple[Applied, ...]:
        return self._told

    def reported(self, *, read_only: bool) -> tuple[Applied, ...]:
        return self._told

    def canary(self, *, read_only: bool) -> CanaryReport:
        return CanaryReport(())

    def plan(self, *, read_only: bool) -> Plan:
        raise ConfinementUnavailable(_NOT_HELD)

    def plan_in_words(self, *, read_only: bool) -> str:
        return _NOT_HELD

    def private(self) -> str:
        raise ConfinementUnavailable(_NOT_HELD)

    def run(self, command: Command, *, read_only: bool) -> Outcome:
        watcher = PollWatcher()
        exchange = self._begun(command, watcher, None, read_only=read_only)
        drive(exchange, watcher)
        return exchange.outcome()

    async def run_async(self, command: Command, *, read_only: bool) -> Outcome:
        import asyncio

        watcher = LoopWatcher(asyncio.get_running_loop())
        exchange = self._begun(command, watcher, None, read_only=read_only)
        await drive_in_loop(exchange, watcher)
        return exchange.outcome()

    def start(self, command: Command, *, read_only: bool) -> RunningCommand:
        watcher = PollWatcher()
        running = RunningCommand(watcher)
        running.attach(self._begun(command, watcher, running.put, read_only=read_only))
        return running

    async def start_async(self, command: Command, *, read_only: bool) -> AsyncRunningCommand:
        import asyncio

        watcher = LoopWatcher(asyncio.get_running_loop())
        running = AsyncRunningCommand(watcher)
        running.attach(self._begun(command, watcher, running.put, read_only=read_only))
        return running

    def _begun(self, command: Command, watcher: Watcher, sink: Sink | None, *, read_only: bool) -> Exchange:
        ran, reply = self._scripts.reply_to(command, read_only=read_only)
        if reply.error is not None:
            raise reply.error
        return _ScriptedExchange(command, self._told, watcher, sink, ran, reply)


class _ScriptedExchange(Exchange):
    """A conversation with nobody: its first step says all that the command said."""

    def __init__(
        self, command: Command, applied: tuple[Applied, ...], watcher: Watcher, sink: Sink | None, ran: Ran, reply: Reply
    ) -> None:
        super().__init__(command, applied, watcher)
        self.leader = 0  # nobody's number
        self.input = _ScriptedInput(ran, stays_open=command.open_stdin)
        self._told, self._sink, self._reply = applied, sink, reply
        self._said = False
        self._ended_by: EndedBy | None = None
        self._kept = {name: OutputBuffer(command.max_output_bytes, command.on_output_limit) for name in ("stdout", "stderr")}
        self._began = time.monotonic()

    def due_at(self) -> float:
        self.refuse_inherited()
        return time.monotonic() + _STEP_SECONDS if self._said and not self.done else 0.0

    def tick(self) -> None:
        if self.done:
            return
        if not self._said:
            self._say()
        if not self._reply.hangs:
            self._end(self._virtual_end())
        elif time.monotonic() >= self._began + self._command.timeout_seconds:
            self._end(EndedBy.TIMED_OUT)

    def request_end(self, reason: EndedBy | None) -> None:
        if not self.done:
            self._end(reason)

    def abandon(self) -> None:
        self.done = True

    def outcome(self) -> Outcome:
        reply, ended_by = self._reply, self._ended_by
        if ended_by is None:
            ended_by = EndedBy.EXITED if reply.signal is None else EndedBy.SIGNALED
        by_itself = ended_by in (EndedBy.EXITED, EndedBy.SIGNALED)
        return Outcome(
            ended_by=ended_by,
            exit_code=reply.exit_code if ended_by is EndedBy.EXITED else None,
            signal=reply.signal if by_itself else 9,
            stdout=self._kept["stdout"].captured(),
            stderr=self._kept["stderr"].captured(),
            duration_seconds=self._duration(ended_by),
            survivors=reply.survivors,
            applied=self._told,
            denials=reply.denials,
        )

    def _say(self) -> None:
        self._said = True
        for name, data in (("stdout", self._reply.stdout), ("stderr", self._reply.stderr)):
            buffer = self._kept[name]
            buffer.append(data)
            shown = data if self._command.on_output_limit == "truncate" else data[: buffer.max_bytes]
            if self._sink is not None and shown:
                self._sink(name, shown)

    def _virtual_end(self) -> EndedBy | None:
        """What ended it, by the time that is told; None for itself."""
        command, lasts = self._command, self._reply.lasts_seconds
        if command.on_output_limit == "kill" and any(buffer.limited for buffer in self._kept.values()):
            return EndedBy.OUTPUT_LIMITED
        if command.idle_timeout_seconds is not None and command.idle_timeout_seconds < min(lasts, command.timeout_seconds):
            return EndedBy.IDLE_TIMED_OUT
        return EndedBy.TIMED_OUT if lasts > command.timeout_seconds else None

    def _end(self, reason: EndedBy | None) -> None:
        self._ended_by = reason
        self._really = time.monotonic() - self._began
        self.done = True

    def _duration(self, ended_by: EndedBy) -> float:
        if self._reply.hangs:
            return self._really
        if ended_by is EndedBy.IDLE_TIMED_OUT:
            return self._command.idle_timeout_seconds or 0.0
        return min(self._reply.lasts_seconds, self._command.timeout_seconds)


class _ScriptedInput(CommandInput):
    """Notes what a command is fed."""

    def __init__(self, ran: Ran, *, stays_open: bool) -> None:
        super().__init__(b"", stays_open=stays_open)
        self._ran = ran
        self._takes = stays_open

    def feed(self, data: bytes) -> int:
        if not self._takes:
            raise BrokenPipeError("standard input is closed")
        self._ran.stdin += data
        return len(data)

    def finish(self) -> None:
        self._takes = False

    def close(self) -> None:
        self._takes = False

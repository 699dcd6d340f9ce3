"""Commands that are scripted: a broker decides as it always does, and what would run then only looks as if it had.

Allow-list, arguments, lock, paths, environment, output caps and the types of everything are real; no process is ever started. And
it says so: no protection is ever told as active, since nothing held anything.
"""

from __future__ import annotations

from collections.abc import Callable

from fable_exec.broker.confined import ConfinedCommands
from fable_exec.canary import CanaryReport
from fable_exec.confine import Plan
from fable_exec.errors import ConfinementUnavailable
from fable_exec.outcome import Applied, Outcome
from fable_exec.pathguard import Workspace
from fable_exec.policy import PROTECTIONS, BrokerPolicy
from fable_exec.runner import AsyncRunningCommand, Command, Launchers, RunningCommand
from fable_exec.runner.driving import LoopWatcher, PollWatcher, drive, drive_in_loop
from fable_exec.runner.exchange import Exchange
from fable_exec.runner.streams import Sink, Watcher
from fable_exec.testing.replies import Ran, Reply, ScriptedExchange
from fable_exec.writelock import Unlocked

__all__ = ["Ran", "Reply", "ScriptedRunner"]

_NOT_HELD = "scripted by a test: no process was started, and nothing held anything"


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
        return ScriptedExchange(command, self._told, watcher, sink, ran, reply)

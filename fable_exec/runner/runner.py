"""Run commands under one plan: blocking, in asyncio, or as a running command to talk to. One runner serves many threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fable_exec._launcher import wire
from fable_exec.confine import Plan, Support
from fable_exec.errors import BrokerGone
from fable_exec.outcome import Applied, Outcome
from fable_exec.runner.command import Command, Executable
from fable_exec.runner.control import Control
from fable_exec.runner.driving import LoopWatcher, PollWatcher, drive, drive_in_loop
from fable_exec.runner.exchange import Exchange
from fable_exec.runner.guarding import Guard, NoGuard
from fable_exec.runner.launchers import Launchers
from fable_exec.runner.running import AsyncRunningCommand, RunningCommand
from fable_exec.runner.streams import Sink, Watcher

_TRIES = 2
_CANARY_SECONDS = 10.0
_NO_EXECUTABLE = Executable(name="canary", registered_path="", path="", device=0, inode=0)


class Runner:
    """Starts its launcher with the first command; `close` ends everything that still runs.

    Args:
        launchers: where launchers come from; two runners over one workspace may share them, `close` of either ends all.
        plan_for: the plan for what the host turns out to support; asked once.
        guard: called around every command.
    """

    def __init__(self, launchers: Launchers, plan_for: Callable[[Support], Plan], guard: Guard | None = None) -> None:
        self._launchers = launchers
        self._plan_for = plan_for
        self._guard = guard or NoGuard()
        self._plan: Plan | None = None
        self._applied: tuple[Applied, ...] | None = None

    @property
    def plan(self) -> Plan:
        """The plan in force; asks the host what it supports when first used.

        Raises:
            ConfinementUnavailable: what the plan insists on cannot be had here.
        """
        if self._plan is None:
            self._plan = self._plan_for(self._launchers.support())
        return self._plan

    @property
    def applied(self) -> tuple[Applied, ...]:
        """What the plan gives, protection by protection; once somebody proved it, what is proved."""
        return self.plan.applied if self._applied is None else self._applied

    def report(self, applied: tuple[Applied, ...]) -> None:
        """Put `applied` into every outcome from now on, instead of what the plan claims."""
        self._applied = applied

    def run_canary(self, bait: Mapping[str, Any]) -> Outcome:
        """Let the launcher's canary go for `bait` (see `fable_exec.canary`); its answers are the outcome's standard output."""
        canary = Command(argv=("canary",), executable=_NO_EXECUTABLE, timeout_seconds=_CANARY_SECONDS, canary=bait)
        watcher = PollWatcher()
        exchange = Exchange(canary, (), watcher)
        exchange.begin(self._launchers.get(self.plan))
        drive(exchange, watcher)
        return exchange.outcome()

    def run(self, command: Command) -> Outcome:
        """Run `command` to its end. Returns within its deadline plus 0.3 s; nothing of it is alive then.

        Raises:
            LaunchFailed: it was never started. ConfinementUnavailable: the launcher could not be.
        """
        watcher = PollWatcher()
        exchange = self._begin(command, watcher, None)
        drive(exchange, watcher)
        return exchange.outcome()

    async def run_async(self, command: Command) -> Outcome:
        """The same without blocking the loop (starting the launcher, once, takes a thread). Cancelling ends the tree first."""
        import asyncio  # loaded when a loop is there: a host without one should not wait for it

        watcher = LoopWatcher(asyncio.get_running_loop())
        exchange = await self._begin_async(command, watcher, None)
        await drive_in_loop(exchange, watcher)
        return exchange.outcome()

    def start(self, command: Command) -> RunningCommand:
        """Start `command` and return at once; its output is read, and its end noticed, while events are taken."""
        watcher = PollWatcher()
        running = RunningCommand(watcher)
        running.attach(self._begin(command, watcher, running.put))
        return running

    async def start_async(self, command: Command) -> AsyncRunningCommand:
        """The asyncio twin of `start`."""
        import asyncio

        watcher = LoopWatcher(asyncio.get_running_loop())
        running = AsyncRunningCommand(watcher)
        running.attach(await self._begin_async(command, watcher, running.put))
        return running

    def close(self) -> None:
        """End all commands and the launcher program, some seconds at most. Idempotent."""
        self._launchers.close()

    def _begin(self, command: Command, watcher: Watcher, sink: Sink | None) -> Exchange:
        for _ in range(_TRIES):
            exchange = self._try_to_begin(command, watcher, sink, self._launchers.get(self.plan))
            if exchange is not None:
                return exchange
        raise _both_gone()

    async def _begin_async(self, command: Command, watcher: Watcher, sink: Sink | None) -> Exchange:
        import asyncio

        for _ in range(_TRIES):
            control = self._launchers.at_hand(self._plan)
            if control is None:
                control = await asyncio.to_thread(lambda: self._launchers.get(self.plan))
            exchange = self._try_to_begin(command, watcher, sink, control)
            if exchange is not None:
                return exchange
        raise _both_gone()

    def _try_to_begin(self, command: Command, watcher: Watcher, sink: Sink | None, control: Control) -> Exchange | None:
        """The command under way; None when the launcher was killed since its last use: it cannot have taken the request."""
        pins = self._guard.before()
        exchange = Exchange(command, self.applied, watcher, sink, pins, self._guard.after, self.plan.observed)
        try:
            exchange.begin(control)
        except wire.PeerGone:
            self._launchers.lost(self.plan, control)
            return None
        return exchange


def _both_gone() -> BrokerGone:
    return BrokerGone("the launcher is gone, and so is the one that was started in its place")

"""Commands under the policy's confinement: one launcher for each state of the write lock, proved by a canary before use.

While writes are locked a command gets the launcher in which the workspace is read-only; unlocked, the one in which files that run
later are pinned and looked after. Both share one zygote. Whether a command may run at all is the gate's decision.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from fable_exec._sys.forks import ProcessLock
from fable_exec.broker.guarding import LaterFilesGuard
from fable_exec.canary import CanaryReport, judge, run_canary
from fable_exec.confine import Plan, Support, compile_command_plan, holds_read_only, refuse_unmet
from fable_exec.errors import ConfinementUnavailable, InternalError, PolicyError
from fable_exec.outcome import Applied, Outcome
from fable_exec.pathguard import Workspace
from fable_exec.policy import PROTECTIONS, AssurancePolicy, BrokerPolicy
from fable_exec.runner import AsyncRunningCommand, Command, Launchers, Runner, RunningCommand, WorkspaceIdentity
from fable_exec.runtimes import system_secrets
from fable_exec.writelock import Unlocked

if TYPE_CHECKING:
    from fable_exec.assurance.model import Verification
    from fable_exec.laterfiles import Sentry

__all__ = ["ConfinedCommands", "MakesCommands"]


class ConfinedCommands:
    """The runners of one broker. Safe among threads.

    Args:
        runtime_paths: what commands may read and execute besides the system directories.
        launchers: begun elsewhere, over the same directory; own ones are made otherwise.
    """

    def __init__(
        self,
        policy: BrokerPolicy,
        workspace: Workspace,
        runtime_paths: tuple[str, ...],
        launchers: Launchers | None = None,
    ) -> None:
        self._policy = policy
        self._runtime_paths = runtime_paths
        identity = WorkspaceIdentity.of(str(policy.workspace), workspace.fd)
        if launchers is not None and not launchers.is_over(identity):
            raise InternalError("these launchers were begun over another directory")
        self._launchers = launchers or Launchers(identity)
        self._workspace_path = str(policy.workspace)
        self._guard = LaterFilesGuard(workspace, policy.confinement, self._pins_hold, self._report_again)
        watched = policy.confinement.mode("later_files") != "off"
        self._locked = Runner(self._launchers, functools.partial(self._plan, writable=False))
        self._unlocked = Runner(self._launchers, functools.partial(self._plan, writable=True), self._guard if watched else None)
        self._reports: dict[bool, CanaryReport] = {}
        self._enough: set[bool] = set()
        self._proving = ProcessLock()
        self._proved_unlocked: tuple[Applied, ...] = ()
        self._verification: Verification | None = None

    # What holds here.

    def holds_read_only(self) -> bool:
        """Whether the kernel can keep the workspace read-only for a command's whole tree; proved, not assumed.

        Raises:
            ConfinementUnavailable: a strict protection does not hold, so nothing runs at all.
        """
        if self._policy.confinement.mode("workspace_writes") == "off":
            return False
        return holds_read_only(self._sufficient(True).applied)

    def insist(self, *, read_only: bool) -> None:
        """Prove what holds in this state of the lock, and refuse where that is less than the policy insists on.

        Raises:
            ConfinementUnavailable: a strict protection does not hold; it says which, why, and what to do.
            PolicyError: the policy does not keep what it promises; it says by which path.
        """
        self._sufficient(read_only)

    def check_what_is_stated(self) -> None:
        """Refuse a policy that states promises of its own and does not keep them: at the start, for nothing would ever run.

        What no policy states is proved with the first command: this starts the launcher, to know what the host can do. Where none
        can be had nothing runs either, and that is told then.

        Raises:
            PolicyError: it says which promise, and by which path it is broken.
        """
        if self._policy.assurance == AssurancePolicy():
            return
        try:
            self._verified().require()
        except ConfinementUnavailable:
            pass

    def covers(self, unlocked: Unlocked | None, *, read_only: bool, interprets: bool) -> bool:
        """Whether a command that is let through like this starts in a world that was checked. Raises as `insist`."""
        self._sufficient(read_only)
        return self._verified().covers(unlocked, read_only=read_only, interprets=interprets)

    def applied(self, *, read_only: bool) -> tuple[Applied, ...]:
        """What holds for commands in this state of the lock, after the canary's proof, be it enough or not.

        Raises:
            ConfinementUnavailable: no launcher can be had, so nothing holds.
        """
        return self._proved(read_only).applied

    def reported(self, *, read_only: bool) -> tuple[Applied, ...]:
        """`applied`; where no launcher can be had, everything that is asked for as unavailable."""
        try:
            return self.applied(read_only=read_only)
        except ConfinementUnavailable as error:
            reason, mode = error.reason or str(error), self._policy.confinement.mode
            return tuple(Applied(name, mode(name), "unavailable", "", reason) for name in PROTECTIONS if mode(name) != "off")

    def canary(self, *, read_only: bool) -> CanaryReport:
        """What the canary met there."""
        self._proved(read_only)
        return self._reports[read_only]

    def plan(self, *, read_only: bool) -> Plan:
        """The launch plan in this state of the lock."""
        return self._runner(read_only).plan

    def plan_in_words(self, *, read_only: bool) -> str:
        """The same to read; why there is none where no launcher can be had."""
        try:
            return self.plan(read_only=read_only).explain()
        except ConfinementUnavailable as error:
            return str(error)

    # Commands.

    def run(self, command: Command, *, read_only: bool) -> Outcome:
        """Run `command` to its end; see Runner.run."""
        return self._sufficient(read_only).run(command)

    def start(self, command: Command, *, read_only: bool) -> RunningCommand:
        """Start `command`; see Runner.start."""
        return self._sufficient(read_only).start(command)

    async def run_async(self, command: Command, *, read_only: bool) -> Outcome:
        """See Runner.run_async."""
        return await (await self._sufficient_async(read_only)).run_async(command)

    async def start_async(self, command: Command, *, read_only: bool) -> AsyncRunningCommand:
        """See Runner.start_async."""
        return await (await self._sufficient_async(read_only)).start_async(command)

    def private(self) -> str:
        """The launcher's private directory, which goes away with it. Raises PolicyError when the workspace holds it."""
        private = os.path.realpath(self._launchers.private())
        if os.path.commonpath((private, self._workspace_path)) == self._workspace_path:
            raise PolicyError.of([("workspace", f"must not hold the temporary directory (TMPDIR) of this process: {private}")])
        return private

    def sentry(self) -> Sentry:
        """Who looks after files that run later, for those who change files without a command. Starts no process."""
        return self._guard.posted()

    def close(self) -> None:
        """End everything. Idempotent."""
        self._launchers.close()
        self._guard.close()

    # How.

    def _runner(self, read_only: bool) -> Runner:
        return self._locked if read_only else self._unlocked

    def _plan(self, support: Support, *, writable: bool) -> Plan:
        return compile_command_plan(
            self._policy, support, self._runtime_paths, writable=writable, hidden=self._hidden, insist=False
        )

    @functools.cached_property
    def _hidden(self) -> tuple[str, ...]:
        besides = self._policy.confinement.runtime_write_paths
        return system_secrets((*self._runtime_paths, *besides, self._workspace_path))

    def _pins_hold(self) -> bool:
        """Whether what is pinned stays as it is: pins are mounts."""
        return self._unlocked.plan.mode != "plain"

    async def _sufficient_async(self, read_only: bool) -> Runner:
        if read_only in self._enough:
            return self._runner(read_only)
        import asyncio  # loaded when a loop is there

        return await asyncio.to_thread(self._sufficient, read_only)

    def _sufficient(self, read_only: bool) -> Runner:
        """The runner for this state of the lock, once all that the policy insists on is proved to hold."""
        runner = self._proved(read_only)
        if read_only not in self._enough:
            refuse_unmet(runner.applied, self._launchers.support(), self._policy.launch)
            self._verified().require()
            self._enough.add(read_only)
        return runner

    def _verified(self) -> Verification:
        """What is proved about the policy itself, with the plans of this host."""
        if self._verification is None:
            from fable_exec.assurance.model import verified  # loaded with the first command

            self._verification = verified(self._policy, self._launchers.support(), self._runtime_paths)
        return self._verification

    def _proved(self, read_only: bool) -> Runner:
        """The same once the canary has shown what holds."""
        runner = self._runner(read_only)
        if read_only not in self._reports:
            with self._proving:
                if read_only not in self._reports:
                    self._prove(runner, read_only)
        return runner

    def _prove(self, runner: Runner, read_only: bool) -> None:
        confinement = self._policy.confinement
        if confinement.asks_for_nothing:
            self._reports[read_only] = CanaryReport(())
            return
        report = run_canary(runner, confinement.connect_ports, confinement.reserved_ports)
        applied = judge(runner.plan.applied, report, writable=not read_only, network=confinement.network)
        if not read_only and confinement.mode("later_files") != "off":
            self.private()
            self._proved_unlocked = applied
            applied = self._guard.judged(applied)
        runner.report(applied)
        self._reports[read_only] = report

    def _report_again(self) -> None:
        """What the sentry says of the workspace has changed. Raises ConfinementUnavailable where that is not enough any more."""
        applied = self._guard.judged(self._proved_unlocked)
        self._unlocked.report(applied)
        refuse_unmet(applied, self._launchers.support(), self._policy.launch)


MakesCommands = Callable[[BrokerPolicy, Workspace, tuple[str, ...], Launchers | None], ConfinedCommands]
"""What ConfinedCommands is called with, by whoever stands in for it too."""

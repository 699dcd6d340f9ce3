"""Commands under the policy's confinement: one launcher for each state of the write lock, proved by a canary before use.

While writes are locked a command gets the launcher in which the workspace is read-only; unlocked, the one in which files that run
later are pinned and looked after. Both share one zygote. Whether a command may run at all is the gate's decision.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

import attrs

from fable_exec._sys.forks import ProcessLock
from fable_exec.canary import CanaryReport, judge, run_canary
from fable_exec.confine import Plan, Support, compile_command_plan, holds_read_only, refuse_unmet
from fable_exec.errors import ConfinementUnavailable, InternalError, PolicyError
from fable_exec.outcome import Applied, Denial, Outcome, display_line
from fable_exec.pathguard import Workspace
from fable_exec.policy import PROTECTIONS, AssurancePolicy, BrokerPolicy, Confinement
from fable_exec.runner import AsyncRunningCommand, Command, Launchers, Pins, Runner, RunningCommand, WorkspaceIdentity
from fable_exec.writelock import Unlocked

if TYPE_CHECKING:
    from fable_exec.assurance.model import Verification
    from fable_exec.laterfiles import Finding, Sentry

__all__ = ["ConfinedCommands", "MakesCommands"]

_MAX_PATH_CHARACTERS = 500
_MAX_WARNINGS = 3


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
        self._guard = _LaterFiles(workspace, policy.confinement, self._pins_hold, self._report_again)
        watched = policy.confinement.mode("later_files") != "off"
        self._locked = Runner(self._launchers, partial(self._plan, writable=False))
        self._unlocked = Runner(self._launchers, partial(self._plan, writable=True), self._guard if watched else None)
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
        return compile_command_plan(self._policy, support, self._runtime_paths, writable=writable, insist=False)

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


class _LaterFiles:
    """The sentry as a runner's guard; it is posted with the first command that may write."""

    def __init__(
        self,
        workspace: Workspace,
        confinement: Confinement,
        pins_hold: Callable[[], bool],
        changed: Callable[[], None],
    ) -> None:
        self._workspace = workspace
        self._action: Literal["neutralise", "report"] = "report" if confinement.planted_files == "report" else "neutralise"
        self._fails = confinement.planted_files == "fail"
        self._pins_required = confinement.mode("later_files") == "strict"
        self._pins_refused = False
        self._changed = changed
        self._weakness = ""
        self._pins_hold = pins_hold
        self._sentry: Sentry | None = None
        self._posting = ProcessLock()
        self._lock = ProcessLock()
        self._underway: dict[int, int] = {}
        self._closed = False
        self._last: tuple[Denial, ...] = ()

    def judged(self, applied: tuple[Applied, ...]) -> tuple[Applied, ...]:
        """`applied`, and what the sentry finds weak here."""
        reason = self._weakness = _weakness_of(self._ready())
        return tuple(
            attrs.evolve(each, reason=f"{each.reason}; {reason}" if each.reason else reason, state="degraded")
            if reason and each.protection == "later_files"
            else each
            for each in applied
        )

    def before(self) -> Pins:
        sentry = self._ready()
        pins = Pins(sentry.before_command(), self._pins_required)
        try:
            weakness = _weakness_of(sentry)
            if weakness != self._weakness or (weakness and self._pins_required):
                self._changed()
        except BaseException:
            sentry.after_command()
            raise
        with self._lock:
            self._underway[os.getpid()] = self._underway.get(os.getpid(), 0) + 1
        return pins

    def after(self, pinned: bool) -> tuple[Denial, ...]:
        with self._lock:
            self._pins_refused = not pinned
            if self._closed:
                found, self._last = self._last, ()
                return found
            self._underway[os.getpid()] -= 1
            return self._look()

    def close(self) -> None:
        """Stop watching; what was underway until now, and has been ended, is looked after first."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._sentry is None:
                return
            if self._underway.get(os.getpid()):
                self._last = self._look()
            self._sentry.close()

    def _look(self) -> tuple[Denial, ...]:
        if self._pins_refused:
            self.posted().rely_on_pins(False)
        return tuple(_denial(finding, self._fails) for finding in self.posted().after_command())

    def _ready(self) -> Sentry:
        """The sentry, told whether pins hold for the commands that come."""
        sentry = self.posted()
        sentry.rely_on_pins(self._pins_hold() and not self._pins_refused)
        return sentry

    def posted(self) -> Sentry:
        """The sentry, posted when it is first asked for: what is there then is the host's."""
        if self._sentry is None:
            with self._posting:
                if self._sentry is None:
                    from fable_exec.laterfiles import Sentry, standard_place  # for confined policies only

                    quarantine = standard_place(self._workspace.path)
                    self._sentry = Sentry(self._workspace, quarantine, self._action, pinned=False)
        return self._sentry


def _denial(finding: Finding, fails: bool) -> Denial:
    kept = f"; kept as {display_line(finding.kept)}"[:_MAX_PATH_CHARACTERS] if finding.kept else ""
    return Denial(
        operation=f"plant {finding.kind.value}",
        path=display_line(finding.path)[:_MAX_PATH_CHARACTERS],
        protection="later_files",
        suggestion=f"{finding.done}: {display_line(finding.detail)}"[:_MAX_PATH_CHARACTERS] + kept,
        fails=fails,
    )


def _weakness_of(sentry: Sentry) -> str:
    """Why the sentry's protection is less than it could be; empty when it is not."""
    warnings = sentry.warnings
    shown = [f"{display_line(each.path)[:_MAX_PATH_CHARACTERS]} {each.detail}" for each in warnings[:_MAX_WARNINGS]]
    more = [f"and {len(warnings) - len(shown)} more"] if len(warnings) > len(shown) else []
    return "; ".join([*([sentry.watching] if sentry.watching else []), *shown, *more])

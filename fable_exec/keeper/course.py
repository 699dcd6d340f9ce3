"""The course of one supervised execution: what happens goes into `lifecycle.step`, and the actions that come back are done.

One loop, one poll. What the actions are is in `acting`, what the job lets be heard in `hearing`; here is the rest to wait for.
"""

from __future__ import annotations

import math
import os
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any

from fable_exec._launcher.readiness import Readiness
from fable_exec.executions import bell, now
from fable_exec.keeper import acting, hearing
from fable_exec.keeper.chronicle import Chronicle
from fable_exec.keeper.claiming import Claim
from fable_exec.keeper.inits import Init
from fable_exec.keeper.job import Job, NotMade
from fable_exec.keeper.output import OutputLog
from fable_exec.keeper.reconciling import Reconciliation
from fable_exec.keeper.recording import Recorder
from fable_exec.keeper.replying import Reply
from fable_exec.keeper.requests import Answer, Answered, KeepRequest
from fable_exec.keeper.runs import LOOK_SECONDS, RunOfJob
from fable_exec.keeper.surroundings import remove_apart
from fable_exec.keeper.sweeping import Sweeper, Swept
from fable_exec.keeper.timers import Timers
from fable_exec.keeper.waiting import Stamp
from fable_exec.keeper.wishes import Wishes
from fable_exec.lifecycle import (
    Accepted,
    Deadline,
    DeadlinePassed,
    DescendantsReconciled,
    Event,
    LaunchFailed,
    LeaderExited,
    Limit,
    LimitExceeded,
    Phase,
    Progress,
    StopRequested,
    step,
)

__all__ = ["Course"]

_DRAIN_SECONDS = 1.0
_LONGEST_ERROR = 500
_LONGEST_TRACE = 4000


class Course:
    """See the module; what is public is for `acting`, `hearing`, `handing`, `starting` and `keeper`.

    Args:
        init: the first attempt's, or why there is none.
        its_bell: one that hangs already; it is hung here where that is below 0.
    """

    def __init__(
        self,
        request: KeepRequest,
        claimed: Claim,
        init: Init | NotMade | None,
        reply: Reply,
        wishes: Wishes,
        its_bell: int = -1,
    ) -> None:
        self.request, self.claim, self.init, self.reply, self.wishes = request, claimed, init, reply, wishes
        self.chronicle = Chronicle(claimed.directory.path)
        self.recorder = Recorder(claimed, self.chronicle)
        self.ready = Readiness()
        self.ready.watch(wishes.descriptor, wishes.wake)
        self.bell = its_bell
        self.fault = claimed.fault or self._hang_bell()
        self.timers = Timers()
        self.progress: Progress | None = None
        self._events: deque[Event] = deque()
        self._is_stepping = False
        # Of the last attempt:
        self.job: Job | None = None
        self._channel = -1
        self.reconciliation: Reconciliation | None = None
        self.started_at = ""
        self.exited_at: str | None = None
        self.stamp: Stamp | None = None
        self.gate_opened_at = self.said_at = 0.0
        self.run: RunOfJob | None = None
        self.proof: dict[str, Any] | None = None
        # Of all:
        self.sweeper: Sweeper | None = None
        self.recall_sweeper: Callable[[], Sweeper] | None = None
        self.planted = Swept()
        self.output: OutputLog | None = None
        self._is_flooded = False

    def _hang_bell(self) -> str | None:
        """Why nobody could wake us; None when somebody can."""
        try:
            if self.bell < 0:
                self.bell = bell.hang(self.claim.directory.path)
        except OSError as error:
            return f"bell: {error}"
        self.ready.watch(self.bell, lambda: self.wishes.hear(self.bell))
        return None

    # From the start to the end.

    def begin(self) -> None:
        """Until the gate is open, or the end."""
        self._guarded(lambda: self.happen(Accepted(frozenset(self.request.policy_failure_codes))))

    def keep(self, seconds: float = math.inf) -> None:
        """Until the end; or until nothing is to be done but to wait for a job of which all is known, after so many seconds."""
        self._guarded(lambda: self._keep(time.monotonic() + seconds))

    def _guarded(self, act: Callable[[], None]) -> None:
        """A fault of ours ends this process, and with it the job; its last line tells of it."""
        try:
            act()
        except Exception as error:
            self.chronicle.note(
                "keeper failed", error=repr(error)[:_LONGEST_ERROR], trace=traceback.format_exc()[-_LONGEST_TRACE:]
            )
            raise

    def _keep(self, leave_at: float) -> None:
        self.timers.set("heartbeat", self.request.bounds.heartbeat_seconds, self._beat)
        if leave_at != math.inf:
            self.timers.set("leave", leave_at - time.monotonic(), lambda: None)
        self._measure_output()
        self._look_for_stop()
        while not self.is_over:
            if time.monotonic() >= leave_at and self._is_quiet():
                return
            self.ready.round(self.timers.milliseconds())
            self.timers.run()
            self._look_for_stop()
        remove_apart(self.request.runtime, self.claim.directory.path)
        self.reply.tell(Answered(answer=Answer.KEPT))

    def _is_quiet(self) -> bool:
        """Whether the first attempt's program runs, and nothing has happened to it."""
        assert self.progress is not None
        is_first = self.progress.phase is Phase.RUNNING and self.progress.attempt == 1
        return is_first and self.job is not None and self.job.answer < 0

    @property
    def is_over(self) -> bool:
        """Whether the outcome is recorded."""
        return self.progress is not None and self.progress.phase is Phase.EXITED

    # What happens, and what is done then.

    def happen(self, *events: Event) -> None:
        """One after the other; what happens while one is dealt with is next, and never in the midst of it."""
        self._events.extend(events)
        if self._is_stepping:
            return
        self._is_stepping = True
        while self._events:
            self._deal_with(self._events.popleft())
        self._is_stepping = False

    def _deal_with(self, event: Event) -> None:
        before = self.progress
        self.progress, actions = step(before, event)
        if self.progress is before:
            return  # too late to matter
        self.chronicle.write(event, self.progress.phase)
        for action in actions:
            following = acting.ACTIONS[action](self)
            if following is not None:
                self._events.append(following)
            if isinstance(following, LaunchFailed):
                break

    # What there is to wait for.

    def listen(self) -> None:
        """To the job, from now on."""
        assert self.job is not None and self.output is not None
        if not self.output.is_over:
            self.ready.watch(self.job.output, self._take_output)
        self._channel = self.job.channel.fileno()
        hearing.listen(self)

    def reconciled(self, event: DescendantsReconciled) -> None:
        """Nothing of the job is left, or nothing more can be done about it."""
        assert self.job is not None
        if self.job.orphan_status is not None:
            self.happen(LeaderExited(os.waitstatus_to_exitcode(self.job.orphan_status)))
        self.ready.unwatch(self._channel)
        self._drain()
        self.happen(event)

    def _take_output(self) -> None:
        assert self.output is not None
        if self.output.take():
            self.renew_lease(time.monotonic())
        if self.output.is_over:
            self.ready.unwatch(self.output.pipe)
        self._measure_output()

    def _drain(self) -> None:
        """Take the output that is still in the pipe; whoever holds its other end after that is not waited for."""
        if self.output is None:
            return
        give_up_at = time.monotonic() + _DRAIN_SECONDS
        while not self.output.is_over and self.output.take() and time.monotonic() < give_up_at:
            continue
        self._measure_output()

    def _measure_output(self) -> None:
        if self._is_flooded or self.output is None:
            return
        self._is_flooded = self.request.bounds.are_exceeded_by(self.output.written_bytes)
        if self._is_flooded:
            self.happen(LimitExceeded(Limit.OUTPUT))

    def renew_lease(self, said_at: float) -> None:
        """The job was heard of, at that moment of the monotonic clock."""
        self.said_at = said_at
        if self.progress is not None and self.progress.phase is Phase.RUNNING:
            self._end_at(self.request.bounds.idle_at(said_at), Deadline.IDLE)

    def note_run(self, run: RunOfJob) -> None:
        """The job leaves a proof of a run, which is looked for from now on."""
        self.run = run

        def look() -> None:
            run.look()
            self.timers.set("run", LOOK_SECONDS, look)

        self.timers.set("run", LOOK_SECONDS, look)

    def begin_deadline(self, opened_at: float) -> None:
        """The gate was opened for the first time, at that moment of the monotonic clock."""
        self.gate_opened_at = opened_at
        self._end_at(self.request.bounds.hard_at(opened_at), Deadline.HARD)

    def _end_at(self, moment: float, deadline: Deadline) -> None:
        if moment < math.inf:
            self.timers.set_at(deadline.value, moment, lambda: self.happen(DeadlinePassed(deadline)))

    def _look_for_stop(self) -> None:
        assert self.progress is not None
        if self.progress.phase in (Phase.RUNNING, Phase.RESTARTING) and self.is_asked_to_stop():
            self.happen(StopRequested())

    def is_asked_to_stop(self) -> bool:
        """By a signal to us, or in the state."""
        if self.wishes.by_signal:
            self.recorder.told.setdefault("stop_requested_at", now())
            return True
        return self.wishes.has_rung() and self.recorder.is_stop_requested()

    def _beat(self) -> None:
        self.recorder.sign_of_life()
        self.wishes.look_again()
        self.timers.set("heartbeat", self.request.bounds.heartbeat_seconds, self._beat)

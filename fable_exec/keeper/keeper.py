"""The life of one supervised execution: what happens goes into `lifecycle.step`, and the actions that come back are done here.

One loop, one poll. Durable are `accepted` (claiming), `running` before a gate opens, how an attempt ended that is to be followed
by another, and the outcome, once, before the end.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any

from fable_exec._launcher import removal, wire
from fable_exec._launcher.linuxos import pipe_unblocking
from fable_exec._launcher.readiness import Readiness
from fable_exec.errors import FableExecError, IdentityLost, SignalRefused
from fable_exec.executions import bell, now
from fable_exec.executions.documents import Attempt, Containment, Usage, attempted, outcome, running
from fable_exec.executions.holding import touch
from fable_exec.executions.names import RUNNER_LOG_NAME
from fable_exec.keeper.chronicle import Chronicle
from fable_exec.keeper.claiming import Claim, claim
from fable_exec.keeper.job import Init, Job, NotMade, unmake
from fable_exec.keeper.output import OutputLog
from fable_exec.keeper.processor_time import ended_for_processor_time
from fable_exec.keeper.reconciling import Reconciliation
from fable_exec.keeper.requests import Answer, Answered, KeepRequest
from fable_exec.keeper.sweeping import Sweeper, Swept
from fable_exec.keeper.timers import Timers
from fable_exec.lifecycle import (
    Accepted,
    Action,
    Deadline,
    DeadlinePassed,
    DescendantsReconciled,
    Event,
    ExitCodeVerdict,
    Judged,
    LaunchFailed,
    LeaderExited,
    Limit,
    LimitExceeded,
    Phase,
    Progress,
    RestartDecided,
    SignalSent,
    Started,
    StopRequested,
    Verdict,
    WaitElapsed,
    is_restarted,
    judged,
    step,
)

__all__ = ["ENDING_SIGNALS", "keep"]

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What asks a keeper to end its job. Its zygote forks it with these blocked, so that none comes before it can be noticed."""
_KILL_WAIT_SECONDS = 2.0
_DRAIN_SECONDS = 1.0
_WAKE_BYTES = 4096
_LONGEST_ERROR = 500
_LONGEST_TRACE = 4000
_CONCLUDE_TRIES = 5
_CONCLUDE_PAUSE_SECONDS = 0.2


def keep(request: KeepRequest, reply: socket.socket) -> None:
    """Accept `request` and keep it until its outcome is recorded, or answer why not. For a process of its own.

    Args:
        reply: gets one answer, once the job runs, or has ended, or was not accepted. Whether anybody still listens is all one.
    """
    wishes = _Wishes()  # before anybody can know of us: an early SIGTERM is honoured
    init = _init(request)
    found = claim(request)
    if isinstance(found, Answered):
        _answer(reply, found)
        if isinstance(init, Init):
            init.dismiss()
        return
    keeper = _Keeper(request, found, init, reply, wishes, ExitCodeVerdict(frozenset(request.policy_failure_codes)))
    keeper.keep()


def _init(request: KeepRequest) -> Init | NotMade | None:
    """The init, which waits; why there is none, where there should be one."""
    if request.plan is None or request.launch_error is not None:
        return None
    try:
        return Init(request.plan, request.command, f"{request.execution_id}.{os.getpid()}")
    except NotMade as failure:
        return failure


def _answer(reply: socket.socket, answered: Answered) -> None:
    try:
        wire.send(reply, answered.to_wire())
    except wire.PeerGone:
        pass
    reply.close()


class _Wishes:
    """Who asks this keeper to end its job: signals to it, and whoever rings its bell and has left word in the state."""

    def __init__(self) -> None:
        self.descriptor, writing = pipe_unblocking()
        self.by_signal = False
        self._rang = True  # something may have been written before there was a bell
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in ENDING_SIGNALS:
            signal.signal(number, self._notice)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)

    def _notice(self, number: int, frame: object) -> None:
        self.by_signal = True

    def wake(self) -> None:
        """Take what a signal woke us with."""
        os.read(self.descriptor, _WAKE_BYTES)

    def hear(self, its_bell: int) -> None:
        """Take what was rung."""
        bell.hear(its_bell)
        self._rang = True

    def look_again(self) -> None:
        """As if it had rung: somebody may have taken the bell away."""
        self._rang = True

    def has_rung(self) -> bool:
        """Whether the bell rang since the last time this was asked."""
        rang, self._rang = self._rang, False
        return rang


class _Keeper:
    """See the module. `keep` returns when the outcome is recorded."""

    def __init__(
        self,
        request: KeepRequest,
        claimed: Claim,
        init: Init | NotMade | None,
        reply: socket.socket,
        wishes: _Wishes,
        verdict: Verdict,
    ) -> None:
        self._request, self._claim, self._init, self._verdict = request, claimed, init, verdict
        self._reply: socket.socket | None = reply
        self._wishes = wishes
        self._directory = claimed.directory
        self._chronicle = Chronicle(self._directory.path)
        self._ready = Readiness()
        self._ready.watch(wishes.descriptor, wishes.wake)
        self._fault = claimed.fault or self._hang_bell()
        self._timers = Timers()
        self._progress: Progress | None = None
        self._events: deque[Event] = deque()
        self._is_stepping = False
        # Of the last attempt:
        self._job: Job | None = None
        self._channel = -1
        self._reconciliation: Reconciliation | None = None
        self._started_at = ""
        self._exited_at: str | None = None
        # Of all:
        self._sweeper: Sweeper | None = None
        self._output: OutputLog | None = None
        self._is_flooded = False
        self._earlier: list[Attempt] = []
        self._usage: Usage | None = None
        self._planted = Swept()
        self._facts: dict[str, Any] = {}

    def _hang_bell(self) -> str | None:
        """Why nobody could wake us; None when somebody can."""
        try:
            its_bell = bell.hang(self._directory.path)
        except OSError as error:
            return f"bell: {error}"
        self._ready.watch(its_bell, lambda: self._wishes.hear(its_bell))
        return None

    def keep(self) -> None:
        """Until the end. A fault of ours ends this process, and with it the job; its last line tells of it."""
        try:
            self._keep()
        except Exception as error:
            self._chronicle.note(
                "keeper failed", error=repr(error)[:_LONGEST_ERROR], trace=traceback.format_exc()[-_LONGEST_TRACE:]
            )
            raise

    def _keep(self) -> None:
        self._happen(Accepted(frozenset(self._request.policy_failure_codes)))
        self._timers.set("heartbeat", self._request.heartbeat_seconds, self._beat)
        while not self._is_over():
            self._ready.round(self._timers.milliseconds())
            self._timers.run()
            if not self._is_over():
                self._look_for_stop()
        self._remove_runtime()
        self._tell_host(Answered(answer=Answer.KEPT))

    def _remove_runtime(self) -> None:
        """Where it lies among everybody's temporary files; below the execution's directory it stays as long as that."""
        if os.path.dirname(self._request.runtime) != str(self._directory.path):
            removal.remove_tree(self._request.runtime)

    def _is_over(self) -> bool:
        return self._progress is not None and self._progress.phase is Phase.EXITED

    # What happens, and what is done then.

    def _happen(self, *events: Event) -> None:
        """One after the other; what happens while one is dealt with is next, and never in the midst of it."""
        self._events.extend(events)
        if self._is_stepping:
            return
        self._is_stepping = True
        while self._events:
            self._deal_with(self._events.popleft())
        self._is_stepping = False

    def _deal_with(self, event: Event) -> None:
        before = self._progress
        self._progress, actions = step(before, event)
        if self._progress is before:
            return  # too late to matter
        self._chronicle.write(event, self._progress.phase)
        for action in actions:
            following = _ACTIONS[action](self)
            if following is not None:
                self._events.append(following)
            if isinstance(following, LaunchFailed):
                break

    def _record_accepted(self) -> None:
        """Done before this keeper was made: claiming."""

    def _start(self) -> Event:
        event: Event
        try:
            event = self._make_attempt()
        except OSError as error:  # whatever of ours failed: nothing has run, and the record shall say so
            event = LaunchFailed(f"keeper: {error}", error.errno)
        if not isinstance(event, StopRequested):
            self._reconciliation = self._exited_at = None  # those of the attempt before: it is this one that is told of now
        return event

    def _make_attempt(self) -> Event:
        init, self._init = self._init or _init(self._request), None
        if init is None:
            return LaunchFailed(self._request.launch_error or "no plan", self._request.launch_errno)
        if isinstance(init, NotMade):
            return _not_made(init)
        if self._fault is not None:
            init.dismiss()
            return LaunchFailed(self._fault)
        if self._is_asked_to_stop():
            init.dismiss()
            return StopRequested()
        try:
            pins = self._post_sweeper()
        except (OSError, FableExecError) as error:
            init.dismiss()
            return LaunchFailed(f"keeper: {error}", getattr(error, "errno", None))
        try:
            self._job = init.begin(**pins)
        except NotMade as failure:
            return _not_made(failure)
        if self._sweeper is not None and self._job.unpinned:
            self._sweeper.rely_on_pins(False)
        if self._output is None:
            self._output = OutputLog(self._directory.path / RUNNER_LOG_NAME, self._request.log_bytes)
        self._output.attach(self._job.output)
        self._ready.watch(self._job.output, self._take_output)
        self._channel = self._job.channel.fileno()
        self._ready.watch(self._channel, self._init_spoke)
        self._ready.watch(self._job.answer, self._gate_answered)
        return Started()

    def _post_sweeper(self) -> dict[str, Any]:
        """What of the workspace is to be pinned."""
        wanted = self._request.later_files
        if wanted is None:
            return {"pins": [], "pins_required": False}
        if self._sweeper is None:
            self._sweeper = Sweeper(self._request.workspace["path"], wanted, pinned=self._request.in_namespaces)
        return {"pins": self._sweeper.pins(), "pins_required": wanted.required}

    def _record_running(self) -> LaunchFailed | None:
        assert self._job is not None and self._job.leader is not None and self._progress is not None
        self._started_at = now()
        leaf = None if self._job.leaf is None else str(self._job.leaf.path)
        containment = Containment(self._job.rung, self._request.applied, leaf)
        try:
            members = running(self._job.leader.identity, containment, self._started_at)
            self._write({**members, **attempted(self._progress.attempt, self._earlier)})
        except (OSError, FableExecError) as error:
            return LaunchFailed(f"state: {error}", getattr(error, "errno", None))
        return None

    def _open_gate(self) -> None:
        assert self._job is not None and self._progress is not None
        self._job.open_gate()
        if self._request.hard_timeout_seconds is not None and self._progress.attempt == 1:
            self._timers.set("hard", self._request.hard_timeout_seconds, lambda: self._happen(DeadlinePassed(Deadline.HARD)))
        self._renew_lease()

    def _close_gate(self) -> None:
        if self._job is not None:
            self._put_job_away()

    def _terminate(self) -> SignalSent | None:
        return SignalSent() if self._signal_leader(signal.SIGTERM, signal.SIGCONT) else None

    def _signal_leader(self, *numbers: int) -> bool:
        """Whether the leader's group got the first of these signals."""
        assert self._job is not None and self._job.leader is not None
        leader, was_sent = self._job.leader, False
        try:
            for number in numbers:
                leader.send_signal_to_group(number, recorded_pgid=leader.pid, recorded_sid=leader.pid)
                self._facts.setdefault("stop_signal_sent_at", now())
                was_sent = True
        except (SignalRefused, IdentityLost, PermissionError) as error:
            if not was_sent:  # else the first signal has ended it
                self._facts["stop_error"] = f"{error} ({getattr(error, 'reason', '')})"
        return was_sent

    def _begin_grace(self) -> None:
        self._timers.set("grace", self._request.stop_grace_seconds, lambda: self._happen(WaitElapsed()))

    def _kill(self) -> SignalSent | None:
        assert self._job is not None and self._job.leader is not None
        is_alive = self._job.leader.is_alive()
        self._ask("kill")
        return SignalSent(kill=True) if is_alive else None

    def _begin_kill_wait(self) -> None:
        self._timers.set("grace", _KILL_WAIT_SECONDS, lambda: self._happen(WaitElapsed()))

    def _reconcile(self) -> None:
        assert self._job is not None
        for name in ("grace", "idle"):
            self._timers.clear(name)
        self._reconciliation = Reconciliation(self._job, self._timers, self._request.descendant_grace_seconds, self._reconciled)
        self._reconciliation.begin()

    def _reconciled(self, event: DescendantsReconciled) -> None:
        assert self._job is not None
        if self._job.orphan_status is not None:
            self._happen(LeaderExited(os.waitstatus_to_exitcode(self._job.orphan_status)))
        self._ready.unwatch(self._channel)
        self._drain()
        self._happen(event)

    def _judge(self) -> Event:
        assert self._progress is not None
        is_swept = self._sweep()  # whatever the verdict is: the host's own programs come next, or another attempt
        facts, attempt = self._progress.facts, self._progress.attempt
        if is_swept and is_restarted(facts, attempt, self._request.restarts):
            return RestartDecided()
        return Judged(judged(facts, self._verdict).holds and is_swept and not self._is_spoilt())

    def _is_spoilt(self) -> bool:
        """Whether the job has not done its work, for something that it planted in any attempt."""
        wanted = self._request.later_files
        return wanted is not None and wanted.fails and self._planted.count > 0

    def _sweep(self) -> bool:
        """Deal with what this attempt planted; whether that could be done."""
        if self._sweeper is None:
            return True
        try:
            self._planted += self._sweeper.sweep()
        except (OSError, FableExecError) as error:
            files = list(self._planted.told)
            self._facts["planted_files"] = {"count": None, "files": files, "error": str(error)[:_LONGEST_ERROR]}
            return False
        self._facts["planted_files"] = {"count": self._planted.count, "files": list(self._planted.told), "error": None}
        return True

    def _record_attempt(self) -> None:
        assert self._progress is not None
        self._earlier.append(Attempt(self._progress.facts, self._started_at, self._exited_at))
        try:
            self._write(attempted(self._progress.attempt, self._earlier))
        except (OSError, FableExecError) as error:
            self._chronicle.note("attempt not recorded", error=str(error))  # it is written again with what comes next

    def _begin_restart_delay(self) -> None:
        assert self._job is not None and self._output is not None
        self._ready.unwatch(self._output.pipe)
        self._output.detach()
        self._job.close()
        self._job = None
        self._timers.set("restart", self._request.restart_delay_seconds, lambda: self._happen(WaitElapsed()))

    def _record_outcome(self) -> None:
        assert self._progress is not None
        emptiness = None if self._reconciliation is None else self._reconciliation.emptiness
        attempt = self._progress.attempt
        members = outcome(
            self._progress.facts, finished_at=now(), exited_at=self._exited_at, emptiness=emptiness, usage=self._usage
        )
        written = {} if self._output is None else {
            "output_bytes": self._output.written_bytes, "output_dropped_bytes": self._output.dropped_bytes
        }  # fmt: skip
        self._conclude({**self._facts, **written, **attempted(attempt, self._earlier[: attempt - 1]), **members})

    def _conclude(self, members: dict[str, Any]) -> None:
        """The one terminal write; where neither the record nor the state can be written it is tried again, and then said."""
        for _ in range(_CONCLUDE_TRIES):
            try:
                self._directory.state.conclude(self._claim.record, members)
            except (OSError, FableExecError) as error:
                self._chronicle.note("outcome not recorded", error=str(error), outcome=members)
                time.sleep(_CONCLUDE_PAUSE_SECONDS)
            else:
                return

    # What there is to wait for.

    def _init_spoke(self) -> None:
        assert self._job is not None
        try:
            message = self._job.receive()
        except wire.PeerGone:
            self._init_lost()
            return
        if "exited" in message:
            self._leader_exited(message)
        elif "lingers" in message:
            self._leader_lost()
        elif "limit" in message:
            self._happen(LimitExceeded(Limit(message["limit"])))
        elif "failed" in message:
            self._chronicle.note("the init failed", **message)
        elif self._reconciliation is not None:
            self._reconciliation.hear(message)

    def _leader_exited(self, message: dict[str, Any]) -> None:
        self._learn_gate()
        self._exited_at = now()
        usage = Usage(
            user_seconds=message["user"],
            system_seconds=message["system"],
            peak_kibibytes=message["peak"],
            peak_processes=message["processes"],
        )
        self._usage = usage.with_earlier(self._usage)
        assert self._request.plan is not None
        used = usage.user_seconds + usage.system_seconds
        for_time = ended_for_processor_time(self._request.plan, message["exited"], used, warned=message["warned"])
        limits = [LimitExceeded(Limit.CPU, by_signal=True)] if for_time else []
        self._happen(LeaderExited(os.waitstatus_to_exitcode(message["exited"])), *limits)

    def _init_lost(self) -> None:
        """Somebody killed the init. What it held is dead with it, or ours now."""
        assert self._job is not None
        self._ready.unwatch(self._job.channel.fileno())
        if self._reconciliation is not None:
            self._reconciliation.init_lost()
            return
        self._leader_lost()

    def _leader_lost(self) -> None:
        """It has ended, and its status is not known, or not yet: a member of the job that traces it holds it back."""
        self._learn_gate()
        self._exited_at = now()
        self._happen(LeaderExited(None))

    def _gate_answered(self) -> None:
        assert self._job is not None
        self._ready.unwatch(self._job.answer)
        failure = self._job.take_answer()
        if failure is None:
            self._tell_host(Answered(answer=Answer.KEPT))
        else:
            self._happen(_exec_failed(failure.stage, failure.number, failure.what))

    def _learn_gate(self) -> None:
        """Before anything is made of an end: whether the program ran at all."""
        if self._job is not None and self._job.answer >= 0:
            self._gate_answered()

    def _take_output(self) -> None:
        assert self._output is not None
        if self._output.take():
            self._renew_lease()
        if self._output.is_over:
            self._ready.unwatch(self._output.pipe)
        self._measure_output()

    def _measure_output(self) -> None:
        most = self._request.max_output_bytes
        if most is not None and self._output is not None and self._output.written_bytes > most and not self._is_flooded:
            self._is_flooded = True
            self._happen(LimitExceeded(Limit.OUTPUT))

    def _renew_lease(self) -> None:
        seconds = self._request.idle_timeout_seconds
        if seconds is not None and self._progress is not None and self._progress.phase is Phase.RUNNING:
            self._timers.set("idle", seconds, lambda: self._happen(DeadlinePassed(Deadline.IDLE)))

    def _look_for_stop(self) -> None:
        assert self._progress is not None
        if self._progress.phase in (Phase.RUNNING, Phase.RESTARTING) and self._is_asked_to_stop():
            self._happen(StopRequested())

    def _is_asked_to_stop(self) -> bool:
        """By a signal to us, or in the state."""
        if self._wishes.by_signal:
            self._facts.setdefault("stop_requested_at", now())
            return True
        if not self._wishes.has_rung():
            return False
        try:
            reading = self._directory.state.read()
        except (OSError, FableExecError) as error:
            self._chronicle.note("state not read", error=str(error))
            return False  # no request, and no end of the job either; the next heartbeat asks again
        return reading is not None and reading.document.get("stop_requested_at") is not None

    def _beat(self) -> None:
        try:
            touch(self._claim.run_lock)
        except OSError as error:
            self._chronicle.note("no sign of life", error=str(error))
        self._wishes.look_again()
        self._timers.set("heartbeat", self._request.heartbeat_seconds, self._beat)

    # Means.

    def _ask(self, word: str) -> None:
        assert self._job is not None
        try:
            self._job.ask(word)
        except wire.PeerGone:
            pass  # its end is noticed by itself

    def _write(self, members: dict[str, Any]) -> None:
        with self._directory.state.locked() as held:
            held.write({**held.require().document, **members})

    def _drain(self) -> None:
        """Take the output that is still in the pipe; whoever holds its other end after that is not waited for."""
        if self._output is None:
            return
        give_up_at = time.monotonic() + _DRAIN_SECONDS
        while not self._output.is_over and self._output.take() and time.monotonic() < give_up_at:
            continue
        self._measure_output()

    def _put_job_away(self) -> None:
        assert self._job is not None
        for descriptor in (self._channel, self._job.answer):
            self._ready.unwatch(descriptor)
        unmake(self._job)
        self._job = None

    def _tell_host(self, answered: Answered) -> None:
        if self._reply is not None:
            reply, self._reply = self._reply, None
            _answer(reply, answered)


_ACTIONS: dict[Action, Callable[[_Keeper], Event | None]] = {
    Action.RECORD_ACCEPTED: _Keeper._record_accepted,
    Action.START: _Keeper._start,
    Action.RECORD_RUNNING: _Keeper._record_running,
    Action.OPEN_GATE: _Keeper._open_gate,
    Action.CLOSE_GATE: _Keeper._close_gate,
    Action.TERMINATE: _Keeper._terminate,
    Action.BEGIN_GRACE: _Keeper._begin_grace,
    Action.KILL: _Keeper._kill,
    Action.BEGIN_KILL_WAIT: _Keeper._begin_kill_wait,
    Action.RECONCILE: _Keeper._reconcile,
    Action.JUDGE: _Keeper._judge,
    Action.RECORD_ATTEMPT: _Keeper._record_attempt,
    Action.BEGIN_RESTART_DELAY: _Keeper._begin_restart_delay,
    Action.RECORD_OUTCOME: _Keeper._record_outcome,
}
"""Every action has its way here; a test keeps the table whole."""


def _not_made(failure: NotMade) -> LaunchFailed:
    return _exec_failed(failure.stage, failure.number, failure.what)


def _exec_failed(stage: str, number: int, what: str) -> LaunchFailed:
    why = f"{errno.errorcode.get(number, number)}: {os.strerror(number)}" if number else "failed"
    return LaunchFailed(f"{stage}: {why}{f' ({what})' if what else ''}", number if stage in ("exec", "executable") else None)

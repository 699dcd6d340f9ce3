"""The life of one supervised execution: what happens goes into `lifecycle.step`, and the actions that come back are done here.

One loop, one poll. Durable are `accepted` (claiming), `running` before the gate opens, and the outcome, once, before the end.
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
from fable_exec.executions.documents import Containment, Usage, outcome, running
from fable_exec.executions.holding import touch
from fable_exec.executions.names import RUNNER_LOG_NAME
from fable_exec.keeper.chronicle import Chronicle
from fable_exec.keeper.claiming import Claim, claim
from fable_exec.keeper.job import Init, Job, NotMade, unmake
from fable_exec.keeper.output import OutputLog
from fable_exec.keeper.processor_time import ended_for_processor_time
from fable_exec.keeper.reconciling import Reconciliation
from fable_exec.keeper.requests import Answer, Answered, KeepRequest
from fable_exec.keeper.sweeping import Sweeper
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
    SignalSent,
    Started,
    StopRequested,
    Verdict,
    WaitElapsed,
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
        self._bell = bell.hang(self._directory.path)
        self._ready = Readiness()
        self._ready.watch(wishes.descriptor, wishes.wake)
        self._ready.watch(self._bell, lambda: wishes.hear(self._bell))
        self._timers = Timers()
        self._progress: Progress | None = None
        self._job: Job | None = None
        self._output: OutputLog | None = None
        self._sweeper: Sweeper | None = None
        self._reconciliation: Reconciliation | None = None
        self._usage: Usage | None = None
        self._exited_at: str | None = None
        self._facts: dict[str, Any] = {}

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

    def _happen(self, event: Event) -> None:
        events = deque([event])
        while events:
            event = events.popleft()
            before = self._progress
            self._progress, actions = step(before, event)
            if self._progress is before:
                continue  # too late to matter
            self._chronicle.write(event, self._progress.phase)
            for action in actions:
                following = _ACTIONS[action](self)
                if following is not None:
                    events.append(following)
                if isinstance(following, LaunchFailed):
                    break

    def _record_accepted(self) -> None:
        """Done before this keeper was made: claiming."""

    def _start(self) -> Event:
        init = self._init
        if init is None:
            return LaunchFailed(self._request.launch_error or "no plan", self._request.launch_errno)
        if isinstance(init, NotMade):
            return _not_made(init)
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
        self._output = OutputLog(self._directory.path / RUNNER_LOG_NAME, self._job.output, self._request.log_bytes)
        self._ready.watch(self._job.output, self._take_output)
        self._ready.watch(self._job.channel.fileno(), self._init_spoke)
        self._ready.watch(self._job.answer, self._gate_answered)
        return Started()

    def _post_sweeper(self) -> dict[str, Any]:
        """What of the workspace is to be pinned."""
        wanted = self._request.later_files
        if wanted is None:
            return {"pins": [], "pins_required": False}
        self._sweeper = Sweeper(self._request.workspace["path"], wanted, pinned=self._request.in_namespaces)
        return {"pins": self._sweeper.pins, "pins_required": wanted.required}

    def _record_running(self) -> LaunchFailed | None:
        assert self._job is not None and self._job.leader is not None
        leaf = None if self._job.leaf is None else str(self._job.leaf.path)
        containment = Containment(self._job.rung, self._request.applied, leaf)
        try:
            self._write(running(self._job.leader.identity, containment, now()))
        except (OSError, FableExecError) as error:
            return LaunchFailed(f"state: {error}", getattr(error, "errno", None))
        return None

    def _open_gate(self) -> None:
        assert self._job is not None
        self._job.open_gate()
        if self._request.hard_timeout_seconds is not None:
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
        for name in ("grace", "hard", "idle"):
            self._timers.clear(name)
        self._reconciliation = Reconciliation(self._job, self._timers, self._request.descendant_grace_seconds, self._reconciled)
        self._reconciliation.begin()

    def _reconciled(self, event: DescendantsReconciled) -> None:
        assert self._job is not None
        if self._job.orphan_status is not None:
            self._happen(LeaderExited(os.waitstatus_to_exitcode(self._job.orphan_status)))
        self._happen(event)

    def _judge(self) -> Event:
        assert self._progress is not None
        is_clean = self._sweep()  # whatever the verdict is: the host's own programs come next
        return Judged(judged(self._progress.facts, self._verdict).holds and is_clean)

    def _sweep(self) -> bool:
        """Deal with what was planted; whether the job may have done its work all the same."""
        if self._sweeper is None:
            return True
        try:
            swept = self._sweeper.sweep()
        except (OSError, FableExecError) as error:
            self._facts["planted_files"] = {"count": None, "files": [], "error": str(error)[:_LONGEST_ERROR]}
            return False
        self._facts["planted_files"] = {"count": swept.count, "files": list(swept.told), "error": None}
        assert self._request.later_files is not None
        return not (swept.count and self._request.later_files.fails)

    def _record_outcome(self) -> None:
        assert self._progress is not None
        emptiness = None if self._reconciliation is None else self._reconciliation.emptiness
        self._drain()
        members = outcome(
            self._progress.facts, finished_at=now(), exited_at=self._exited_at, emptiness=emptiness, usage=self._usage
        )
        written = {} if self._output is None else {
            "output_bytes": self._output.written_bytes, "output_dropped_bytes": self._output.dropped_bytes
        }  # fmt: skip
        self._conclude({**self._facts, **written, **members})

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
        self._usage = Usage(
            user_seconds=message["user"],
            system_seconds=message["system"],
            peak_kibibytes=message["peak"],
            peak_processes=message["processes"],
        )
        self._happen(LeaderExited(os.waitstatus_to_exitcode(message["exited"])))
        assert self._request.plan is not None
        used = message["user"] + message["system"]
        if ended_for_processor_time(self._request.plan, message["exited"], used, warned=message["warned"]):
            self._happen(LimitExceeded(Limit.CPU, by_signal=True))

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
        most = self._request.max_output_bytes
        if most is not None and self._output.written_bytes > most:
            self._happen(LimitExceeded(Limit.OUTPUT))

    def _renew_lease(self) -> None:
        seconds = self._request.idle_timeout_seconds
        if seconds is not None and self._progress is not None and self._progress.phase is Phase.RUNNING:
            self._timers.set("idle", seconds, lambda: self._happen(DeadlinePassed(Deadline.IDLE)))

    def _look_for_stop(self) -> None:
        assert self._progress is not None
        if self._progress.phase is Phase.RUNNING and self._is_asked_to_stop():
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

    def _put_job_away(self) -> None:
        assert self._job is not None
        for descriptor in (self._job.channel.fileno(), self._job.answer):
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
    Action.RECORD_OUTCOME: _Keeper._record_outcome,
}
"""Every action has its way here; a test keeps the table whole."""


def _not_made(failure: NotMade) -> LaunchFailed:
    return _exec_failed(failure.stage, failure.number, failure.what)


def _exec_failed(stage: str, number: int, what: str) -> LaunchFailed:
    why = f"{errno.errorcode.get(number, number)}: {os.strerror(number)}" if number else "failed"
    return LaunchFailed(f"{stage}: {why}{f' ({what})' if what else ''}", number if stage in ("exec", "executable") else None)

"""What is done when `lifecycle.step` says so: one function for each action, and the table of them."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from fable_exec._launcher import wire
from fable_exec.errors import FableExecError, IdentityLost, SignalRefused
from fable_exec.executions import now
from fable_exec.executions.documents import Containment, unproved
from fable_exec.executions.names import RUNNER_LOG_NAME
from fable_exec.keeper.attempts import made, make_init
from fable_exec.keeper.job import Job, unmake
from fable_exec.keeper.output import OutputLog
from fable_exec.keeper.reconciling import Reconciliation
from fable_exec.keeper.runs import run_of
from fable_exec.keeper.sweeping import Sweeper
from fable_exec.lifecycle import (
    Action,
    Event,
    ExitCodeVerdict,
    Facts,
    Judged,
    LaunchFailed,
    RestartDecided,
    SignalSent,
    Started,
    StopRequested,
    Verdict,
    WaitElapsed,
    is_restarted,
    judged,
)

if TYPE_CHECKING:
    from fable_exec.keeper.course import Course

__all__ = ["ACTIONS"]

_KILL_WAIT_SECONDS = 2.0
_LONGEST_ERROR = 500


def _record_accepted(course: Course) -> None:
    """Done before there was a course: claiming."""


def _start(course: Course) -> Event:
    event: Event
    try:
        event = _make_attempt(course)
    except OSError as error:  # whatever of ours failed: nothing has run, and the record shall say so
        event = LaunchFailed(f"keeper: {error}", error.errno)
    if not isinstance(event, StopRequested):
        course.reconciliation = course.exited_at = None  # those of the attempt before: it is this one that is told of now
    return event


def _make_attempt(course: Course) -> Event:
    request = course.request
    if course.init is None:
        with course.wishes.held_back():
            course.init = make_init(request.to_wire())
    init, course.init = course.init, None
    job = made(request, init, course.fault, course.is_asked_to_stop, lambda: _post_sweeper(course))
    if not isinstance(job, Job):
        return job
    course.job = job
    if course.output is None:
        course.output = OutputLog(course.claim.directory.path / RUNNER_LOG_NAME, request.log_bytes)
    course.output.attach(job.output)
    course.listen()
    if request.proof is not None:
        course.note_run(run_of(request))
    return Started()


def _post_sweeper(course: Course) -> Sweeper | None:
    wanted = course.request.later_files
    if wanted is not None and course.sweeper is None:
        path = course.request.workspace["path"]
        course.sweeper = Sweeper(path, wanted, pinned=course.request.in_namespaces)
    return course.sweeper


def _record_running(course: Course) -> LaunchFailed | None:
    job, progress = course.job, course.progress
    assert job is not None and job.leader is not None and progress is not None
    leaf = None if job.leaf is None else str(job.leaf.path)
    containment = Containment(job.rung, course.request.applied, leaf)
    try:
        course.started_at, course.stamp = course.recorder.running(job.leader.identity, containment, progress.attempt)
    except (OSError, FableExecError) as error:
        return LaunchFailed(f"state: {error}", getattr(error, "errno", None))
    return None


def _open_gate(course: Course) -> None:
    assert course.job is not None and course.progress is not None
    opened_at = time.monotonic()
    course.job.open_gate()
    if course.progress.attempt == 1:
        course.begin_deadline(opened_at)
    course.renew_lease(time.monotonic())


def _close_gate(course: Course) -> None:
    job, course.job = course.job, None
    if job is not None:
        for descriptor in (job.channel.fileno(), job.answer, job.output):
            course.ready.unwatch(descriptor)
        unmake(job)


def _terminate(course: Course) -> SignalSent | None:
    """SIGTERM to the leader's group."""
    assert course.job is not None and course.job.leader is not None
    leader, was_sent = course.job.leader, False
    try:
        for number in (signal.SIGTERM, signal.SIGCONT):
            leader.send_signal_to_group(number, recorded_pgid=leader.pid, recorded_sid=leader.pid)
            course.recorder.told.setdefault("stop_signal_sent_at", now())
            was_sent = True
    except (SignalRefused, IdentityLost, PermissionError) as error:
        if not was_sent:  # else the first signal has ended it
            course.recorder.told["stop_error"] = f"{error} ({getattr(error, 'reason', '')})"
    return SignalSent() if was_sent else None


def _begin_grace(course: Course) -> None:
    course.timers.set("grace", course.request.stop_grace_seconds, lambda: course.happen(WaitElapsed()))


def _kill(course: Course) -> SignalSent | None:
    assert course.job is not None and course.job.leader is not None
    is_alive = course.job.leader.is_alive()
    try:
        course.job.ask("kill")
    except wire.PeerGone:
        pass  # its end is noticed by itself
    return SignalSent(kill=True) if is_alive else None


def _begin_kill_wait(course: Course) -> None:
    course.timers.set("grace", _KILL_WAIT_SECONDS, lambda: course.happen(WaitElapsed()))


def _reconcile(course: Course) -> None:
    assert course.job is not None
    for name in ("grace", "idle"):
        course.timers.clear(name)
    grace = course.request.descendant_grace_seconds
    course.reconciliation = Reconciliation(course.job, course.timers, grace, course.reconciled)
    course.reconciliation.begin()


def _judge(course: Course) -> Event:
    assert course.progress is not None
    is_swept = _sweep(course)  # whatever the verdict is: the host's own programs come next, or another attempt
    facts, request = course.progress.facts, course.request
    if is_swept and is_restarted(facts, course.progress.attempt, request.restarts):
        return RestartDecided()
    # A job that planted something in any attempt may have not done its work.
    is_spoilt = request.later_files is not None and request.later_files.fails and course.planted.count > 0
    verdict = ExitCodeVerdict() if request.proof is None else _proved(course, facts)
    return Judged(judged(facts, verdict).holds and is_swept and not is_spoilt)


def _proved(course: Course, facts: Facts) -> Verdict:
    """Look at the proof, where nobody is left who could still write, and keep what it came to for the record."""
    from fable_exec.keeper import judging  # only who has to judge one has memory for it

    if course.run is None or facts.descendants_detected or not facts.descendants_quiescent:
        return judging.ProofVerdict(None)
    binding, course.proof = judging.proof_of(course.request, course.run, course.claim.directory.path)
    course.recorder.told |= {"run_id": binding.run_id, "final_tree_sha256": binding.drift and binding.drift.current_tree}
    return judging.ProofVerdict(binding)


def _sweep(course: Course) -> bool:
    """Deal with what this attempt planted; whether that could be done."""
    if course.sweeper is None and course.recall_sweeper is None:
        return True
    error = None
    try:
        if course.sweeper is None and course.recall_sweeper is not None:
            course.sweeper = course.recall_sweeper()
        assert course.sweeper is not None
        course.planted += course.sweeper.sweep()
    except (OSError, FableExecError) as failure:
        error = str(failure)[:_LONGEST_ERROR]
    count = course.planted.count if error is None else None
    course.recorder.told["planted_files"] = {"count": count, "files": list(course.planted.told), "error": error}
    return error is None


def _record_attempt(course: Course) -> None:
    assert course.progress is not None
    course.recorder.attempt_ended(course.progress, course.started_at, course.exited_at)


def _begin_restart_delay(course: Course) -> None:
    assert course.job is not None and course.output is not None
    course.ready.unwatch(course.output.pipe)
    course.output.detach()
    course.job.close()
    course.job = None
    course.timers.set("restart", course.request.restart_delay_seconds, lambda: course.happen(WaitElapsed()))


def _record_outcome(course: Course) -> None:
    assert course.progress is not None
    emptiness = None if course.reconciliation is None else course.reconciliation.emptiness
    proof = None if course.request.proof is None else course.proof or unproved(course.progress.facts)
    course.recorder.ended(course.progress, course.exited_at, emptiness, course.output, proof)
    if course.proof is not None and course.proof["bound"]:
        _attest(course)


def _attest(course: Course) -> None:
    """Where there is a key. Only now: an attestation of an end that was never recorded would tell what nobody knows."""
    key_file = course.request.proof and course.request.proof["signing_key"]
    if not key_file:
        return
    from fable_exec.keeper.attesting import write_attestation  # only who has a key needs what signs

    try:
        write_attestation(course.claim.directory, key_file)
    except (OSError, FableExecError) as error:  # the record stands all the same
        course.chronicle.note("no attestation", error=str(error)[:_LONGEST_ERROR])


ACTIONS: dict[Action, Callable[[Course], Event | None]] = {
    Action.RECORD_ACCEPTED: _record_accepted,
    Action.START: _start,
    Action.RECORD_RUNNING: _record_running,
    Action.OPEN_GATE: _open_gate,
    Action.CLOSE_GATE: _close_gate,
    Action.TERMINATE: _terminate,
    Action.BEGIN_GRACE: _begin_grace,
    Action.KILL: _kill,
    Action.BEGIN_KILL_WAIT: _begin_kill_wait,
    Action.RECONCILE: _reconcile,
    Action.JUDGE: _judge,
    Action.RECORD_ATTEMPT: _record_attempt,
    Action.BEGIN_RESTART_DELAY: _begin_restart_delay,
    Action.RECORD_OUTCOME: _record_outcome,
}
"""Every action has its way here; a test keeps the table whole."""

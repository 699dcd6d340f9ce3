"""What a job lets be heard, and what it means for the course of its execution: words of its init, and of its gate."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from fable_exec._launcher import wire
from fable_exec.executions import now
from fable_exec.keeper.attempts import exec_failed, for_processor_time, usage_told
from fable_exec.keeper.requests import Answer, Answered
from fable_exec.lifecycle import LeaderExited, Limit, LimitExceeded

if TYPE_CHECKING:
    from fable_exec.keeper.course import Course

__all__ = ["gate_answered", "listen"]


def listen(course: Course) -> None:
    """To the job, from now on."""
    assert course.job is not None
    course.ready.watch(course.job.channel.fileno(), partial(_init_spoke, course))
    if course.job.answer >= 0:
        course.ready.watch(course.job.answer, partial(gate_answered, course))


def gate_answered(course: Course) -> None:
    """Take the answer, which is there: the program runs, or why it does not."""
    assert course.job is not None
    course.ready.unwatch(course.job.answer)
    failure = course.job.take_answer()
    if failure is None:
        course.reply.tell(Answered(answer=Answer.KEPT))
    else:
        program = course.request.command["executable"]["path"]
        course.happen(exec_failed(failure.stage, failure.number, failure.what, program))


def _init_spoke(course: Course) -> None:
    assert course.job is not None
    try:
        message = course.job.receive()
    except wire.PeerGone:
        _init_lost(course)
        return
    if "exited" in message:
        _leader_exited(course, message)
    elif "lingers" in message:
        _leader_lost(course)
    elif "limit" in message:
        course.happen(LimitExceeded(Limit(message["limit"])))
    elif "failed" in message:
        course.chronicle.note("the init failed", **message)
    elif course.reconciliation is not None:
        course.reconciliation.hear(message)


def _leader_exited(course: Course, message: dict[str, Any]) -> None:
    assert course.job is not None
    usage = usage_told(message, course.job)
    _learn_gate(course)
    course.exited_at = now()
    course.recorder.usage = usage.with_earlier(course.recorder.usage)
    limits = [LimitExceeded(Limit.CPU, by_signal=True)] if for_processor_time(course.request, message) else []
    course.happen(LeaderExited(os.waitstatus_to_exitcode(message["exited"])), *limits)


def _init_lost(course: Course) -> None:
    """Somebody killed the init. What it held is dead with it, or ours now."""
    assert course.job is not None
    course.ready.unwatch(course.job.channel.fileno())
    if course.reconciliation is not None:
        course.reconciliation.init_lost()
        return
    _leader_lost(course)


def _leader_lost(course: Course) -> None:
    """It has ended, and its status is not known, or not yet: a member of the job that traces it holds it back."""
    _learn_gate(course)
    course.exited_at = now()
    course.happen(LeaderExited(None))


def _learn_gate(course: Course) -> None:
    """Before anything is made of an end: whether the program ran at all."""
    if course.job is not None and course.job.answer >= 0:
        gate_answered(course)

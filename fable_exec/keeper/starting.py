"""A start, in a child of the keeper that ends with it: the keeper, which waits for the job, need not have memory for it.

The starter decides the start, makes the job, and lets it run. Then it hands over everything that it holds. What has not come so
far it concludes itself; when it dies on the way, that is as if the keeper had died.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Mapping
from typing import Any

from fable_exec._launcher import kernel, steps, wire
from fable_exec.keeper.claiming import claim
from fable_exec.keeper.course import Course
from fable_exec.keeper.handing import hand_over
from fable_exec.keeper.hearing import gate_answered
from fable_exec.keeper.inits import Init
from fable_exec.keeper.job import NotMade
from fable_exec.keeper.replying import Reply
from fable_exec.keeper.requests import Answered, KeepRequest
from fable_exec.keeper.wishes import Wishes

__all__ = ["begun", "fork_starter"]

_LINGER_SECONDS = 0.1
"""A job that ends so soon is its starter's to the end: nobody has to wake up for it. Where there are no namespaces the proof that
nothing is left is wait(2) of the keeper, whose orphans those of the job become."""
_PROGRAM_MILLISECONDS = 1000
"""How long a starter waits for the program to be executed; the keeper goes on with that."""


def fork_starter(
    request: Mapping[str, Any], init: Init | NotMade | None, reply: Reply, wishes: Wishes
) -> tuple[int, socket.socket]:
    """The number of a starter of `request`, who uses our `init`, and the channel on which it hands over, or that ends.

    Raises OSError.
    """
    ours, theirs = wire.socket_pair()
    keeper = os.getpid()
    try:
        pid = kernel.clone(0)
    except OSError:
        ours.close()
        theirs.close()
        raise
    if pid == 0:
        status = 1
        try:
            ours.close()
            _start(request, init, reply, wishes, keeper, theirs)
            status = 0
        finally:
            os._exit(status)
    theirs.close()
    return pid, ours


def _start(
    request: Mapping[str, Any],
    init: Init | NotMade | None,
    reply: Reply,
    wishes: Wishes,
    keeper: int,
    channel: socket.socket,
) -> None:
    steps.die_with_parent()
    if os.getppid() != keeper:
        return  # it died before that
    wishes.part()
    course = begun(KeepRequest.from_wire(request), init, reply, wishes, keeper)
    if course is None:
        return
    if course.request.in_namespaces or course.is_over:
        course.keep(_LINGER_SECONDS)
    else:
        _await_program(course)
    if not course.is_over:
        hand_over(channel, course)


def begun(request: KeepRequest, init: Init | NotMade | None, reply: Reply, wishes: Wishes, keeper: int) -> Course | None:
    """The course of an execution whose gate is open, or that is over; None when it was not accepted, which was answered.

    Args:
        keeper: who will keep it.
    """
    found = claim(request, keeper)
    if isinstance(found, Answered):
        reply.tell(found)
        if isinstance(init, Init):
            init.dismiss()
        return None
    course = Course(request, found, init, reply, wishes)
    course.begin()
    return course


def _await_program(course: Course) -> None:
    """Wait until it runs, or something else happens, which is left to the keeper."""
    assert course.job is not None
    waiting = select.poll()
    for descriptor in (course.job.answer, course.job.channel.fileno(), course.bell, course.wishes.descriptor):
        waiting.register(descriptor, select.POLLIN)
    if course.job.answer in dict(waiting.poll(_PROGRAM_MILLISECONDS)):
        gate_answered(course)

"""What a starter hands over to its keeper when the job runs, and a course that goes on from it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fable_exec._launcher import wire
from fable_exec._launcher.linuxos import memory_file
from fable_exec.executions import ExecutionDirectory
from fable_exec.keeper.claiming import Claim
from fable_exec.keeper.course import Course
from fable_exec.keeper.job import Job
from fable_exec.keeper.output import OutputLog
from fable_exec.keeper.replying import Reply
from fable_exec.keeper.requests import KeepRequest
from fable_exec.keeper.runs import RunOfJob
from fable_exec.keeper.sweeping import Sweeper
from fable_exec.keeper.waiting import Taken
from fable_exec.keeper.wishes import Wishes
from fable_exec.lifecycle import Accepted, Started, step

__all__ = ["hand_over", "resumed", "take"]


def hand_over(channel: socket.socket, course: Course) -> None:
    """Give all of it to the keeper; this process is to end then. Locks belong to open files, and so go along.

    Raises OSError. A keeper that is gone takes nothing.
    """
    assert course.job is not None and course.output is not None
    values, leader = course.job.to_hand_over()
    descriptors = {
        "leader": leader,
        "run_lock": course.claim.run_lock,
        "workspace_lock": course.claim.workspace_lock,
        "record": course.claim.record.fileno(),
        "bell": course.bell,
    }
    if course.output.log >= 0:
        descriptors["log"] = course.output.log
    if course.sweeper is not None:
        descriptors["workspace"] = course.sweeper.directory
        descriptors["memory"] = _file_of(course.sweeper.memory())
    message = {
        "descriptors": list(descriptors),
        "job": values,
        "directory": str(course.claim.directory.path),
        "stamp": course.stamp,
        "gate_opened_at": course.gate_opened_at,
        "said_at": course.said_at,
        "output": course.output.counts,
        "run": None if course.run is None else course.run.to_hand_over(),
        "started_at": course.started_at,
        "told": course.recorder.told,
        "by_signal": course.wishes.by_signal,
        "is_answered": not course.reply.is_open,
    }
    try:
        wire.send(channel, message, tuple(descriptors.values()))
    except wire.PeerGone:
        pass


def _file_of(content: bytes) -> int:
    memory = memory_file("known")
    with os.fdopen(os.dup(memory), "wb") as file:
        file.write(content)
    return memory


def take(channel: socket.socket) -> Taken | None:
    """What is handed over, now that there is something on `channel`; None when its end is."""
    try:
        values, numbers = wire.receive(channel)
    except wire.PeerGone:
        return None
    return values, dict(zip(values["descriptors"], numbers, strict=True))


def resumed(
    message: Mapping[str, Any],
    job: Job,
    reply: Reply,
    wishes: Wishes,
    taken: Taken,
    output: OutputLog,
    said_at: float,
    run: RunOfJob | None,
) -> Course:
    """The course that goes on, in the keeper.

    Args:
        message: the KeepRequest on the wire. job: without a leader, as it was when the starter was forked.
        output: what was written of it meanwhile.
        said_at: when the job last said something, on the monotonic clock.
        run: that of the job, as far as it is known.
    """
    request, (values, descriptors) = KeepRequest.from_wire(message), taken
    directory = ExecutionDirectory(Path(values["directory"]))
    record = directory.state.adopt_terminal_record(descriptors["record"])
    claimed = Claim(directory, descriptors["run_lock"], descriptors["workspace_lock"], record)
    course = Course(request, claimed, None, reply, wishes, descriptors["bell"])
    course.progress, _ = step(None, Accepted(frozenset(request.policy_failure_codes)))
    course.progress, _ = step(course.progress, Started())
    course.recorder.told.update(values["told"])
    course.started_at = values["started_at"]
    course.job = job
    job.take_over(values["job"], descriptors["leader"])
    course.output = output
    if "memory" in descriptors:
        course.recall_sweeper = partial(_sweeper, request, descriptors)  # where that fails it is as if the sweep did
    course.listen()
    if run is not None:
        course.note_run(run)
    course.begin_deadline(values["gate_opened_at"])
    course.renew_lease(said_at)
    return course


def _sweeper(request: KeepRequest, descriptors: Mapping[str, int]) -> Sweeper:
    assert request.later_files is not None
    place = descriptors["workspace"]
    with os.fdopen(descriptors["memory"], "rb") as file:
        file.seek(0)
        memory = file.read()
    try:
        return Sweeper(f"/proc/self/fd/{place}", request.later_files, pinned=request.in_namespaces, memory=memory)
    finally:
        os.close(place)

"""The process that keeps one supervised execution: it has it started, waits for it, and wakes up to deal with its end.

Most of the time nothing is to be decided. So whatever takes more than to wait is done by a child that ends (starting), or once
there is no more to wait for (course).
"""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Mapping
from typing import Any

from fable_exec.executions.names import RUNNER_LOG_NAME
from fable_exec.keeper.attempts import make_init
from fable_exec.keeper.handing import resumed, take
from fable_exec.keeper.inits import Init
from fable_exec.keeper.job import Job, NotMade
from fable_exec.keeper.output import OutputLog
from fable_exec.keeper.replying import Reply
from fable_exec.keeper.requests import KeepRequest
from fable_exec.keeper.runs import run_of
from fable_exec.keeper.starting import begun, fork_starter
from fable_exec.keeper.waiting import Taken, await_something
from fable_exec.keeper.wishes import Wishes

__all__ = ["keep"]


def keep(request: Mapping[str, Any], reply: socket.socket) -> None:
    """Accept `request` and keep it until its outcome is recorded, or answer why not. For a process of its own.

    Args:
        request: a KeepRequest on the wire.
        reply: gets one answer, once the job runs, or has ended, or was not accepted. Whether anybody still listens is all one.
    """
    # The first thing, because what a process has touched until it forks both have to keep.
    init = make_init(request)
    wishes = Wishes()  # signals were blocked so far: an early SIGTERM is honoured
    answer = Reply(reply)
    try:
        starter, channel = fork_starter(request, init, answer, wishes)
    except OSError:
        _keep_alone(request, init, answer, wishes)
        return
    taken = _await_starter(starter, channel, wishes)
    if isinstance(init, Init):
        if taken is not None:
            _keep(request, init.job, answer, wishes, taken)
        else:
            init.dismiss()  # it is concluded, or was not accepted; or the starter has died, and with it goes whatever it made


def _keep_alone(request: Mapping[str, Any], init: Init | NotMade | None, reply: Reply, wishes: Wishes) -> None:
    """Where no more children can be had."""
    course = begun(KeepRequest.from_wire(request), init, reply, wishes, os.getpid())
    if course is not None:
        course.keep()


def _await_starter(starter: int, channel: socket.socket, wishes: Wishes) -> Taken | None:
    """What it hands over; None when it has ended without."""
    waiting = select.poll()
    for descriptor in (channel.fileno(), wishes.descriptor):
        waiting.register(descriptor, select.POLLIN)
    is_told = False
    while channel.fileno() not in dict(waiting.poll()):
        wishes.wake()
        if wishes.by_signal and not is_told:
            is_told = True
            os.kill(starter, signal.SIGTERM)  # our child, which nobody has waited for
    with channel:
        taken = take(channel)
    os.waitpid(starter, 0)
    return taken


def _keep(request: Mapping[str, Any], job: Job, reply: Reply, wishes: Wishes, taken: Taken) -> None:
    """Wait, and then see to the end."""
    values, descriptors = taken
    if values["is_answered"]:
        reply.close()
    wishes.by_signal |= values["by_signal"]
    output = OutputLog(f"{values['directory']}/{RUNNER_LOG_NAME}", request["log_bytes"], descriptors.get("log", -1))
    output.attach(job.output)
    output.go_on(*values["output"])
    run = None if values["run"] is None else run_of(KeepRequest.from_wire(request), *values["run"])
    said_at = await_something(request, job, wishes, taken, output, run)
    resumed(request, job, reply, wishes, taken, output, said_at, run).keep()

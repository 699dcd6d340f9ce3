"""One attempt at a job, from an init that waits to a leader at its gate: what fails on the way is a word about it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from typing import Any

from fable_exec.errors import FableExecError
from fable_exec.executions.documents import Usage
from fable_exec.keeper.inits import Init
from fable_exec.keeper.job import Job, NotMade
from fable_exec.keeper.processor_time import ended_for_processor_time
from fable_exec.keeper.requests import KeepRequest, plan_of_job
from fable_exec.keeper.surroundings import restore_runtime
from fable_exec.keeper.sweeping import Sweeper
from fable_exec.lifecycle import LaunchFailed, StopRequested

__all__ = ["exec_failed", "for_processor_time", "made", "make_init", "usage_told"]


def make_init(request: Mapping[str, Any]) -> Init | NotMade | None:
    """The init, which waits; why there is none, where there should be one. `request` is a KeepRequest on the wire."""
    if request["plan"] is None or request["launch_error"] is not None:
        return None
    try:
        return Init(plan_of_job(request["plan"], request), request["command"], f"{request['execution_id']}.{os.getpid()}")
    except NotMade as failure:
        return failure


def made(
    request: KeepRequest,
    init: Init | NotMade | None,
    fault: str | None,
    is_asked_to_stop: Callable[[], bool],
    post_sweeper: Callable[[], Sweeper | None],
) -> Job | LaunchFailed | StopRequested:
    """The job, whose leader waits at its gate; else nothing is left of it.

    Args:
        fault: why it must not be started.
        post_sweeper: what looks after the workspace from now on; it raises OSError or FableExecError where nothing can.
    """
    if init is None:
        return LaunchFailed(request.launch_error or "no plan", request.launch_errno)
    if isinstance(init, NotMade):
        return exec_failed(init.stage, init.number, init.what)
    if fault is not None:
        init.dismiss()
        return LaunchFailed(fault)
    if is_asked_to_stop():
        init.dismiss()
        return StopRequested()
    try:
        restore_runtime(request.runtime, request.user, request.group)
        sweeper = post_sweeper()
        pins = [] if sweeper is None else sweeper.pins()
    except (OSError, FableExecError) as error:
        init.dismiss()
        return LaunchFailed(f"keeper: {error}", getattr(error, "errno", None))
    try:
        job = init.begin(pins, pins_required=request.later_files is not None and request.later_files.required)
    except NotMade as failure:
        return exec_failed(failure.stage, failure.number, failure.what)
    if sweeper is not None and job.unpinned:
        sweeper.rely_on_pins(False)
    return job


def exec_failed(stage: str, number: int, what: str, program: str = "") -> LaunchFailed:
    """The event that tells of a step of the launch; `program` is the path of what was to be executed."""
    if stage == "exec" and program:
        what = _what_it_lacks(program)
    why = f"{errno.errorcode.get(number, number)}: {os.strerror(number)}" if number else "failed"
    return LaunchFailed(f"{stage}: {why}{f' ({what})' if what else ''}", number if stage in ("exec", "executable") else None)


def _what_it_lacks(program: str) -> str:
    """The kernel only knows the descriptor that it was executed by, and says the same of a program and of its interpreter."""
    from fable_exec.runtimes import what_is_missing  # only who could not start has memory for it

    lacks = what_is_missing(program)
    return f"{program}: {lacks}" if lacks else program


def usage_told(message: dict[str, Any], job: Job) -> Usage:
    """What the leader used, by the word of the init that reaped it, without what it used before it was the job's program."""
    user, system = job.used_before
    return Usage(
        user_seconds=max(0.0, message["user"] - user),
        system_seconds=max(0.0, message["system"] - system),
        peak_kibibytes=message["peak"],
        peak_processes=message["processes"],
    )


def for_processor_time(request: KeepRequest, message: dict[str, Any]) -> bool:
    """Whether its limit of processor time ended the leader of which that word is."""
    assert request.plan is not None
    used = message["user"] + message["system"]
    return ended_for_processor_time(request.plan, message["exited"], used, warned=message["warned"])

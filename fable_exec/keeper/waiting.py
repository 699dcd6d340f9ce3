"""A job runs, and its keeper waits: with as little as can be, since a process has memory for what it does.

What comes of output is written, deadlines are watched, signs of life are left. Whatever else happens is not looked into here: the
keeper wakes up, and deals with it.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping
from typing import Any

from fable_exec.executions.holding import touch
from fable_exec.keeper.bounds import Bounds
from fable_exec.keeper.job import Job
from fable_exec.keeper.output import OutputLog
from fable_exec.keeper.runs import LOOK_SECONDS, RunOfJob
from fable_exec.keeper.wishes import Wishes
from fable_exec.statefile.state import STATE_NAME

__all__ = ["Stamp", "Taken", "await_something", "stamp_of"]

Stamp = tuple[int, int]
"""Which state.json it was: its inode, and when it was written last."""

Taken = tuple[dict[str, Any], dict[str, int]]
"""Values, and descriptors by name, of an execution that runs."""

_LONGEST_SECONDS = 1 << 20
_NEVER = float("inf")


def await_something(
    request: Mapping[str, Any], job: Job, wishes: Wishes, taken: Taken, output: OutputLog, run: RunOfJob | None
) -> float:
    """Return when there is more to do than to wait: a signal, something to read, a deadline, a limit, another state.

    What is readable then has not been read, but output. `wishes` have rung if the state is another.

    Args:
        request: a KeepRequest on the wire. taken: as it was handed over.
        run: where it is to be looked which run the job is on.

    Returns:
        When the job last said something, on the monotonic clock.
    """
    # A function that runs here costs each keeper its pages: so there are few, and none that only who is awake needs.
    values, descriptors = taken
    bounds, said_at = Bounds(**request["bounds"]), values["said_at"]
    hard_at, beat_at = bounds.hard_at(values["gate_opened_at"]), time.monotonic() + bounds.heartbeat_seconds
    look_at = _NEVER if run is None else 0.0
    waiting = _listening(job, wishes, taken, output)
    wishes.has_rung()
    is_needed = values["stamp"] is None
    while not is_needed and not wishes.by_signal:
        left = min(hard_at, bounds.idle_at(said_at), beat_at, look_at) - time.monotonic()
        ready = {descriptor for descriptor, _ in waiting.poll(max(0, int(min(left, _LONGEST_SECONDS) * 1000) + 1))}
        if wishes.descriptor in ready:
            wishes.wake()
        if output.pipe in ready:
            said_at = time.monotonic() if output.take() else said_at
            if output.is_over:
                waiting.unregister(output.pipe)
        now = time.monotonic()
        is_needed = not ready <= {wishes.descriptor, output.pipe} or now >= min(hard_at, bounds.idle_at(said_at))
        is_needed |= bounds.are_exceeded_by(output.written_bytes)
        if run is not None and now >= look_at:
            look_at = now + LOOK_SECONDS
            run.look()
        if now >= beat_at:
            beat_at = now + bounds.heartbeat_seconds
            is_needed |= not _sign_of_life(descriptors["run_lock"]) or _is_another(values)
    if _is_another(values):
        wishes.look_again()
    return float(said_at)


def _listening(job: Job, wishes: Wishes, taken: Taken, output: OutputLog) -> select.poll:
    """To all there is to hear."""
    values, descriptors = taken
    waiting = select.poll()
    for descriptor in (wishes.descriptor, job.channel.fileno(), descriptors["bell"]):
        waiting.register(descriptor, select.POLLIN)
    if not output.is_over:
        waiting.register(output.pipe, select.POLLIN)
    if not values["job"]["program_runs"]:
        waiting.register(job.answer, select.POLLIN)
    return waiting


def _sign_of_life(run_lock: int) -> bool:
    """Leave one; where that fails, whoever is awake can tell of it."""
    try:
        touch(run_lock)
    except OSError:
        return False
    return True


def _is_another(values: Mapping[str, Any]) -> bool:
    """Whether state.json is not the one any more that was handed over."""
    return values["stamp"] is None or stamp_of(f"{values['directory']}/{STATE_NAME}") != tuple(values["stamp"])


def stamp_of(path: str) -> Stamp | None:
    """Of the file that is there; None when there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns

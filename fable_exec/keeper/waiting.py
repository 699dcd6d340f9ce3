"""A job runs, and its keeper waits: with as little as can be, since a process has memory for what it does.

What comes of output is written, deadlines are watched, signs of life are left. Whatever else happens is not looked into here: the
keeper wakes up, and deals with it.
"""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Mapping
from typing import Any

from fable_exec.executions.holding import touch
from fable_exec.keeper.job import Job
from fable_exec.keeper.output import OutputLog
from fable_exec.keeper.wishes import Wishes
from fable_exec.statefile.state import STATE_NAME

__all__ = ["Stamp", "await_something", "stamp_of"]

Stamp = tuple[int, int]
"""Which state.json it was: its inode, and when it was written last."""

_LONGEST_SECONDS = 1 << 20


def await_something(
    request: Mapping[str, Any],
    job: Job,
    wishes: Wishes,
    values: Mapping[str, Any],
    descriptors: Mapping[str, int],
    output: OutputLog,
) -> float:
    """Return when there is more to do than to wait: a signal, something to read, a deadline, a limit, another state.

    What is readable then has not been read, but output. `wishes` have rung if the state is another.

    Args:
        request: a KeepRequest on the wire. values, descriptors: as they were handed over.

    Returns:
        When the job last said something, on the monotonic clock.
    """
    hard, idle = _bound(request["hard_timeout_seconds"]), _bound(request["idle_timeout_seconds"])
    most, beat = _bound(request["max_output_bytes"]), request["heartbeat_seconds"]
    opened_at: float = values["gate_opened_at"]
    said_at: float = values["said_at"]
    beaten_at = time.monotonic()
    waiting = select.poll()
    for descriptor in (wishes.descriptor, job.channel.fileno(), descriptors["bell"]):
        waiting.register(descriptor, select.POLLIN)
    if not output.is_over:
        waiting.register(output.pipe, select.POLLIN)
    if not values["job"]["program_runs"]:
        waiting.register(job.answer, select.POLLIN)
    state, stamp = f"{values['directory']}/{STATE_NAME}", values["stamp"]
    wishes.has_rung()
    is_needed = stamp is None
    while not is_needed and not wishes.by_signal:
        left = min(opened_at + hard, said_at + idle, beaten_at + beat) - time.monotonic()
        ready = [descriptor for descriptor, _ in waiting.poll(max(0, int(min(left, _LONGEST_SECONDS) * 1000) + 1))]
        is_needed = any(descriptor not in (wishes.descriptor, output.pipe) for descriptor in ready)
        if wishes.descriptor in ready:
            wishes.wake()
        if output.pipe in ready:
            said_at = time.monotonic() if output.take() else said_at
            if output.is_over:
                waiting.unregister(output.pipe)
        now = time.monotonic()
        is_needed |= now >= min(opened_at + hard, said_at + idle) or output.written_bytes > most
        if now >= beaten_at + beat:
            beaten_at = now
            is_needed |= not _sign_of_life(descriptors["run_lock"]) or stamp_of(state) != tuple(stamp)
    if stamp is None or stamp_of(state) != tuple(stamp):
        wishes.look_again()
    return said_at


def _bound(wanted: float | None) -> float:
    return math.inf if wanted is None else wanted


def _sign_of_life(run_lock: int) -> bool:
    """Leave one; where that fails, whoever is awake can tell of it."""
    try:
        touch(run_lock)
    except OSError:
        return False
    return True


def stamp_of(path: str) -> Stamp | None:
    """Of the file that is there; None when there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns

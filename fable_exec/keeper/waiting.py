"""A job runs, and its keeper waits: with as little as can be, since a process has memory for what it does.

What comes of output is written, deadlines are watched, signs of life are left. Whatever else happens is not looked into here: the
keeper wakes up, and deals with it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from fable_exec._launcher.readiness import Readiness
from fable_exec.executions.holding import touch
from fable_exec.keeper.bounds import Bounds
from fable_exec.keeper.job import Job
from fable_exec.keeper.output import OutputLog
from fable_exec.keeper.timers import Timers
from fable_exec.keeper.wishes import Wishes
from fable_exec.statefile.state import STATE_NAME

__all__ = ["Stamp", "await_something", "stamp_of"]

Stamp = tuple[int, int]
"""Which state.json it was: its inode, and when it was written last."""


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
    wait = _Wait(Bounds(**request["bounds"]), values, descriptors["run_lock"], output)
    wait.listen(wishes, job.channel.fileno(), descriptors["bell"], *(() if values["job"]["program_runs"] else (job.answer,)))
    wishes.has_rung()
    while not wait.is_over and not wishes.by_signal:
        wait.round()
    if wait.state_has_changed():
        wishes.look_again()
    return wait.said_at


class _Wait:
    """One. `is_over` says that there is more to do, `said_at` when the job last said something."""

    def __init__(self, bounds: Bounds, values: Mapping[str, Any], run_lock: int, output: OutputLog) -> None:
        self._bounds, self._run_lock, self._output = bounds, run_lock, output
        self._state, self._stamp = f"{values['directory']}/{STATE_NAME}", values["stamp"]
        self._ready, self._timers = Readiness(), Timers()
        self.said_at: float = values["said_at"]
        self.is_over = self._stamp is None
        bounds.time_job(self._timers, values["gate_opened_at"], self._end)
        bounds.time_silence(self._timers, self.said_at, self._end)
        bounds.time_sign_of_life(self._timers, self._leave_sign_of_life)

    def listen(self, wishes: Wishes, *others: int) -> None:
        """To the output and to `wishes`; whatever comes of `others` is left to who is awake then."""
        self._ready.watch(wishes.descriptor, wishes.wake)
        for descriptor in others:
            self._ready.watch(descriptor, self._end)
        if not self._output.is_over:
            self._ready.watch(self._output.pipe, self._take_output)

    def round(self) -> None:
        """Wait until something happens, or is due."""
        self._ready.round(self._timers.milliseconds())
        self._timers.run()

    def state_has_changed(self) -> bool:
        """Whether state.json is not the one any more that was handed over."""
        return self._stamp is None or stamp_of(self._state) != tuple(self._stamp)

    def _end(self) -> None:
        self.is_over = True

    def _take_output(self) -> None:
        if self._output.take():
            self.said_at = time.monotonic()
            self._bounds.time_silence(self._timers, self.said_at, self._end)
        if self._output.is_over:
            self._ready.unwatch(self._output.pipe)
        self.is_over |= self._bounds.are_exceeded_by(self._output.written_bytes)

    def _leave_sign_of_life(self) -> None:
        """Where that fails, whoever is awake can tell of it."""
        try:
            touch(self._run_lock)
        except OSError:
            self.is_over = True
        self.is_over |= self.state_has_changed()
        self._bounds.time_sign_of_life(self._timers, self._leave_sign_of_life)


def stamp_of(path: str) -> Stamp | None:
    """Of the file that is there; None when there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns

"""Which of several reasons is the one that ended a command: a table."""

from __future__ import annotations

import pytest

from fable_exec.outcome import EndedBy
from fable_exec.runner.ending import ended_by

E = EndedBy


@pytest.mark.parametrize(
    ("wanted", "launcher", "code", "signal", "overflowed", "lost", "answer"),
    [
        (None, None, 0, None, False, False, E.EXITED),
        (None, None, 7, None, False, False, E.EXITED),
        (None, None, None, 15, False, False, E.SIGNALED),
        (None, None, None, 9, False, False, E.SIGNALED),
        # A reason that came after the leader had ended by itself does not count.
        (E.TIMED_OUT, None, 0, None, False, False, E.EXITED),
        (E.TIMED_OUT, "ended", 0, None, False, False, E.EXITED),
        (E.CANCELLED, "deadline", 3, None, False, False, E.EXITED),
        (E.CANCELLED, "ended", None, 15, False, False, E.SIGNALED),
        # The leader was killed for a reason.
        (E.TIMED_OUT, "ended", None, 9, False, False, E.TIMED_OUT),
        (E.IDLE_TIMED_OUT, "ended", None, 9, False, False, E.IDLE_TIMED_OUT),
        (E.CANCELLED, "ended", None, 9, False, False, E.CANCELLED),
        (None, "deadline", None, 9, False, False, E.TIMED_OUT),
        (E.CANCELLED, "deadline", None, 9, False, False, E.TIMED_OUT),
        (None, "ended", None, 9, False, False, E.CANCELLED),
        # Nobody reaped it in time, or it never ran.
        (E.TIMED_OUT, None, None, None, False, False, E.TIMED_OUT),
        (E.CANCELLED, None, None, None, False, False, E.CANCELLED),
        (None, None, None, None, False, False, E.BROKER_LOST),
        # Too much output is the reason, whatever else happened.
        (E.OUTPUT_LIMITED, "ended", None, 9, True, False, E.OUTPUT_LIMITED),
        (None, None, 0, None, True, False, E.OUTPUT_LIMITED),
        (E.TIMED_OUT, "ended", None, 9, True, False, E.OUTPUT_LIMITED),
        (None, None, None, None, True, True, E.OUTPUT_LIMITED),
        # The launcher or the place was lost: a kill that came with it says nothing about the command; an exit code does.
        (None, None, None, None, False, True, E.BROKER_LOST),
        (None, None, None, 9, False, True, E.BROKER_LOST),
        (E.TIMED_OUT, None, None, None, False, True, E.BROKER_LOST),
        (None, None, 0, None, False, True, E.EXITED),
    ],
)
def test_the_reason_is_the_one_that_touched_the_leader(
    wanted: E | None, launcher: str | None, code: int | None, signal: int | None, overflowed: bool, lost: bool, answer: E
) -> None:
    found = ended_by(wanted=wanted, launcher_reason=launcher, code=code, signal=signal, overflowed=overflowed, lost=lost)
    assert found is answer

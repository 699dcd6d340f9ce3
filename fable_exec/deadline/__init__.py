"""One command with a hard and an idle deadline, its output passed through, its whole tree ended and proved gone.

`run_with_deadline` starts a process for that; `run_here` is for a program that is such a process, as `fable-exec deadline` is.
There is no policy and no confinement here: the command has all rights of its user.
"""

from __future__ import annotations

from fable_exec.deadline.cancelling import MAX_CANCEL_BYTES, CancelFile, write_cancel_file
from fable_exec.deadline.result import DeadlineEnd, DeadlineResult
from fable_exec.deadline.running import run_here, run_with_deadline, tell
from fable_exec.deadline.terms import MAX_SECONDS, Terms

__all__ = [
    "MAX_CANCEL_BYTES",
    "MAX_SECONDS",
    "CancelFile",
    "DeadlineEnd",
    "DeadlineResult",
    "Terms",
    "run_here",
    "run_with_deadline",
    "tell",
    "write_cancel_file",
]

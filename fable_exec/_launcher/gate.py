"""A leader that is made before it may run: it waits at a gate, and the end of the gate's pipe ends it.

Its answers go through a close-on-exec pipe: nothing and then the end is the proof that the program runs (execve(2), pipe(7)).
"""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Callable, Sequence

from . import kernel
from .descriptor_limit import give_descriptor_limit_back
from .resource_limits import Limit, above_copies, leave_python, set_limits
from .spawn import SpawnFailed
from .typed import NoReturn

GATE_CLOSED = 125
"""Exit status of a leader that was never let through."""
_NOT_EXECUTED = 127
_OPEN = b"o"


Prepare = Callable[[], tuple[Sequence[tuple[int, int]], Callable[[], NoReturn]]]
"""What a leader does before it waits: descriptors to copy (from, to), and what then replaces the program."""


def fork_at_gate(gate: int, answer: int, limits: Sequence[Limit], prepare: Prepare) -> int:
    """Fork a process with a session of its own, which prepares itself, and executes under `limits` once it may.

    Args:
        gate: reading end; `open_gate` on the other one lets it through, the end of the pipe makes it exit with GATE_CLOSED.
        answer: writing end; what keeps it from running is written there. Both stay the caller's.
        prepare: called in the new process; ends it where that fails. What it gave may raise SpawnFailed or OSError.
    """
    pid = kernel.clone(0)
    if pid == 0:
        _wait_and_execute(gate, answer, limits, prepare)
    return pid


def open_gate(gate: int) -> None:
    """Let the leader through. Nothing happens when it is gone."""
    try:
        os.write(gate, _OPEN)
    except BrokenPipeError:
        pass


def answered(raw: bytes) -> SpawnFailed | None:
    """What the whole of an answer pipe says: why the program does not run, or None when it does."""
    if not raw:
        return None
    stage, number, what = json.loads(raw)
    return SpawnFailed(stage, number, what)


def _wait_and_execute(gate: int, answer: int, limits: Sequence[Limit], prepare: Prepare) -> NoReturn:
    failure = SpawnFailed("exec", errno.EINVAL, "")
    try:
        # Where no namespace does it: an init that is killed takes the job along.
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        copies, execute = prepare()
        gate, answer = above_copies(gate), above_copies(answer)
        leave_python(copies)
        if os.read(gate, len(_OPEN)) != _OPEN:
            os._exit(GATE_CLOSED)
        give_descriptor_limit_back()
        set_limits(limits)
        execute()
    except SpawnFailed as error:
        failure = error
    except OSError as error:
        failure = SpawnFailed("exec", error.errno or errno.EINVAL, error.filename or "")
    finally:
        os.write(answer, json.dumps(failure.args).encode())
        os._exit(_NOT_EXECUTED)

"""Whether its limit of processor time ended a leader. Pure.

The kernel sends SIGXCPU at the limit of one process, and SIGKILL a second later (getrlimit(2)); the init does so at that of the
tree. The kernel counts ticks of the clock for it, and what wait4(2) tells may be a fifth less.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Mapping
from typing import Any

__all__ = ["ended_for_processor_time"]


def ended_for_processor_time(plan: Mapping[str, Any], status: int, used_seconds: float, *, warned: bool) -> bool:
    """Whether the limit did it; a status that the leader chose without having been told of the limit is its own.

    Args:
        plan: as `confine.Plan.to_wire` writes it. status: the leader's, as wait(2) tells it.
        used_seconds: user and system time of the leader and of those whom it waited for.
        warned: the init sent it SIGXCPU. A leader that then exits with 0 had done its work.
    """
    most = next((soft for name, soft, _ in plan["command_limits"] if name == "cpu"), None)
    if most is None:
        return False
    if warned and status != 0:
        return True
    least: Mapping[int, float] = {
        signal.SIGXCPU: most / 2,
        signal.SIGKILL: most,
    }  # anybody may send SIGKILL, and the job itself SIGXCPU
    return os.WIFSIGNALED(status) and used_seconds >= least.get(os.WTERMSIG(status), math.inf)

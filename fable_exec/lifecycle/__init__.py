"""What an execution can be, what can happen to it, what is to be done then, and why it ended: tables without any act.

`step` follows TRANSITIONS, `terminal_reason` the rules, `exit_status` the custom of shells, `health` what a reader found. The
shells around it are the keeper and `recover`; who they are, and how they do an action, is not known here.
"""

from __future__ import annotations

from fable_exec.lifecycle.events import (
    EVENTS,
    Accepted,
    DeadlinePassed,
    DescendantsReconciled,
    Event,
    HostRebooted,
    Judged,
    KeeperLost,
    LaunchFailed,
    LeaderExited,
    LimitExceeded,
    RestartDecided,
    SignalSent,
    Started,
    StopRequested,
    WaitElapsed,
    judged,
)
from fable_exec.lifecycle.health import Health, Liveness, health, health_by_looking
from fable_exec.lifecycle.reasons import (
    POLICY_FAILURE_CODES,
    RULES,
    SIGNAL_BASE,
    Deadline,
    ExitCodeVerdict,
    Facts,
    Limit,
    TerminalReason,
    Verdict,
    asks_for_verdict,
    exit_status,
    is_restarted,
    status_of_failed_exec,
    terminal_reason,
)
from fable_exec.lifecycle.states import Phase, State
from fable_exec.lifecycle.table import IGNORED, TRANSITIONS, Action, Progress, Row, step

__all__ = [
    "EVENTS",
    "IGNORED",
    "POLICY_FAILURE_CODES",
    "RULES",
    "SIGNAL_BASE",
    "TRANSITIONS",
    "Accepted",
    "Action",
    "Deadline",
    "DeadlinePassed",
    "DescendantsReconciled",
    "Event",
    "ExitCodeVerdict",
    "Facts",
    "Health",
    "HostRebooted",
    "Judged",
    "KeeperLost",
    "LaunchFailed",
    "LeaderExited",
    "Limit",
    "LimitExceeded",
    "Liveness",
    "Phase",
    "Progress",
    "RestartDecided",
    "Row",
    "SignalSent",
    "Started",
    "State",
    "StopRequested",
    "TerminalReason",
    "Verdict",
    "WaitElapsed",
    "asks_for_verdict",
    "exit_status",
    "health",
    "health_by_looking",
    "is_restarted",
    "judged",
    "status_of_failed_exec",
    "step",
    "terminal_reason",
]

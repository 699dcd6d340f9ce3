"""The execution boundary that Python agent frameworks embed: commands and file writes under one policy, with exact outcomes.

`ExecutionBroker` works in this process, `BrokerClient` through a child process; `AsyncExecutionBroker` and `AsyncBrokerClient`
are their asyncio twins. `Supervisor` keeps long jobs that outlive whoever started them. Names are loaded when they are first
used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fable_exec.broker import AsyncExecutionBroker, ExecutionBroker, Explanation
    from fable_exec.client import AsyncBrokerClient, BrokerClient
    from fable_exec.errors import (
        ArgumentDenied,
        AuditUnavailable,
        BoundaryUnproved,
        BrokerGone,
        ConfinementUnavailable,
        Conflict,
        Denied,
        ExecutableDenied,
        ExtraMissing,
        FableExecError,
        FrameTooLarge,
        IdentityLost,
        InternalError,
        InvalidJson,
        InvalidRequest,
        LaunchFailed,
        PathDenied,
        PathError,
        PathExists,
        PathIsDirectory,
        PathNotDirectory,
        PathNotFound,
        PathPermission,
        PolicyError,
        ProofNotBound,
        ProviderUnavailable,
        ShellDenied,
        SignalRefused,
        StateUnreadable,
        TreeUnstable,
        UnknownExecution,
        WritesLocked,
    )
    from fable_exec.outcome import Applied, Captured, Denial, EndedBy, Observed, Outcome, Survivor
    from fable_exec.policy import (
        ArgumentPolicy,
        AssurancePolicy,
        AuditRules,
        BrokerPolicy,
        Confinement,
        EnvironmentPolicy,
        Limits,
        PathRules,
        Protections,
        load_policy,
    )
    from fable_exec.protocol import CommandResult, Event, Exited, InspectResult, Output, ProbeResult, Started, WriteResult
    from fable_exec.supervisor import Execution, ExecutionSpec, Recovered, Supervisor, UnreadableExecution

__version__ = "0.1.0"

_ROOMS = {
    "broker": ("AsyncExecutionBroker", "ExecutionBroker", "Explanation"),
    "client": ("AsyncBrokerClient", "BrokerClient"),
    "errors": (
        "ArgumentDenied", "AuditUnavailable", "BoundaryUnproved", "BrokerGone", "ConfinementUnavailable", "Conflict", "Denied",
        "ExecutableDenied", "ExtraMissing", "FableExecError", "FrameTooLarge", "IdentityLost", "InternalError", "InvalidJson",
        "InvalidRequest", "LaunchFailed", "PathDenied", "PathError", "PathExists", "PathIsDirectory", "PathNotDirectory",
        "PathNotFound", "PathPermission", "PolicyError", "ProofNotBound", "ProviderUnavailable", "ShellDenied", "SignalRefused",
        "StateUnreadable", "TreeUnstable", "UnknownExecution", "WritesLocked",
    ),
    "outcome": ("Applied", "Captured", "Denial", "EndedBy", "Observed", "Outcome", "Survivor"),
    "policy": (
        "ArgumentPolicy", "AssurancePolicy", "AuditRules", "BrokerPolicy", "Confinement", "EnvironmentPolicy", "Limits",
        "PathRules", "Protections", "load_policy",
    ),
    "protocol": ("CommandResult", "Event", "Exited", "InspectResult", "Output", "ProbeResult", "Started", "WriteResult"),
    "supervisor": ("Execution", "ExecutionSpec", "Recovered", "Supervisor", "UnreadableExecution"),
}  # fmt: skip
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "AsyncBrokerClient",
    "AsyncExecutionBroker",
    "BrokerClient",
    "ExecutionBroker",
    "Explanation",
    "Execution",
    "ExecutionSpec",
    "Recovered",
    "Supervisor",
    "UnreadableExecution",
    "ArgumentPolicy",
    "AssurancePolicy",
    "AuditRules",
    "BrokerPolicy",
    "EnvironmentPolicy",
    "Limits",
    "PathRules",
    "Protections",
    "load_policy",
    "CommandResult",
    "InspectResult",
    "ProbeResult",
    "WriteResult",
    "Event",
    "Exited",
    "Output",
    "Started",
    "Applied",
    "Captured",
    "Denial",
    "EndedBy",
    "Observed",
    "Outcome",
    "Survivor",
    "ArgumentDenied",
    "AuditUnavailable",
    "BoundaryUnproved",
    "BrokerGone",
    "Confinement",
    "ConfinementUnavailable",
    "Conflict",
    "Denied",
    "ExecutableDenied",
    "ExtraMissing",
    "FableExecError",
    "FrameTooLarge",
    "IdentityLost",
    "InternalError",
    "InvalidJson",
    "InvalidRequest",
    "LaunchFailed",
    "PathDenied",
    "PathError",
    "PathExists",
    "PathIsDirectory",
    "PathNotDirectory",
    "PathNotFound",
    "PathPermission",
    "PolicyError",
    "ProofNotBound",
    "ProviderUnavailable",
    "ShellDenied",
    "SignalRefused",
    "StateUnreadable",
    "TreeUnstable",
    "UnknownExecution",
    "WritesLocked",
]


def __getattr__(name: str) -> Any:
    room = _ROOM_OF.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{room}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

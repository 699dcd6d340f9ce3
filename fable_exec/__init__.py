"""The execution boundary that Python agent frameworks embed: commands and file writes under one policy, with exact outcomes.

`ExecutionBroker` works in this process, `BrokerClient` through a child process; `AsyncExecutionBroker` and `AsyncBrokerClient`
are their asyncio twins. `Supervisor` keeps long jobs that outlive whoever started them. Names are loaded when they are first
used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fable_exec.lazynames import on_demand

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

_MODULES = {
    "fable_exec.broker": ("AsyncExecutionBroker", "ExecutionBroker", "Explanation"),
    "fable_exec.client": ("AsyncBrokerClient", "BrokerClient"),
    "fable_exec.errors": (
        "ArgumentDenied", "AuditUnavailable", "BoundaryUnproved", "BrokerGone", "ConfinementUnavailable", "Conflict", "Denied",
        "ExecutableDenied", "ExtraMissing", "FableExecError", "FrameTooLarge", "IdentityLost", "InternalError", "InvalidJson",
        "InvalidRequest", "LaunchFailed", "PathDenied", "PathError", "PathExists", "PathIsDirectory", "PathNotDirectory",
        "PathNotFound", "PathPermission", "PolicyError", "ProofNotBound", "ProviderUnavailable", "ShellDenied", "SignalRefused",
        "StateUnreadable", "TreeUnstable", "UnknownExecution", "WritesLocked",
    ),
    "fable_exec.outcome": ("Applied", "Captured", "Denial", "EndedBy", "Observed", "Outcome", "Survivor"),
    "fable_exec.policy": (
        "ArgumentPolicy", "AssurancePolicy", "AuditRules", "BrokerPolicy", "Confinement", "EnvironmentPolicy", "Limits",
        "PathRules", "Protections", "load_policy",
    ),
    "fable_exec.protocol": (
        "CommandResult", "Event", "Exited", "InspectResult", "Output", "ProbeResult", "Started", "WriteResult",
    ),
    "fable_exec.supervisor": ("Execution", "ExecutionSpec", "Recovered", "Supervisor", "UnreadableExecution"),
}  # fmt: skip

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

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_demand(__name__, _MODULES)

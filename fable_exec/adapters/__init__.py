"""For agent frameworks: one workspace that they run commands and work on files in, and the adapters that stand on it.

`AgentWorkspace` is what every adapter uses, `BlockingAgentWorkspace` its twin for frameworks without asyncio. The adapters are
modules of their own (`fable_exec.adapters.mcp` and so on), each with an extra; importing this package loads no framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fable_exec.lazynames import on_demand

if TYPE_CHECKING:
    from fable_exec.adapters.blocking import BlockingAgentWorkspace
    from fable_exec.adapters.statuses import Completed, Status, completed, refused, status_of, status_of_refusal
    from fable_exec.adapters.values import (
        CommandDenial,
        CommandFinished,
        CommandOutput,
        CommandStarted,
        GlobResult,
        LaunchSpec,
        RunRequest,
        WorkspaceEvent,
    )
    from fable_exec.adapters.workspace import AgentWorkspace

__all__ = [
    "AgentWorkspace",
    "BlockingAgentWorkspace",
    "CommandDenial",
    "CommandFinished",
    "CommandOutput",
    "CommandStarted",
    "Completed",
    "GlobResult",
    "LaunchSpec",
    "RunRequest",
    "Status",
    "WorkspaceEvent",
    "completed",
    "refused",
    "status_of",
    "status_of_refusal",
]

_MODULES = {
    "fable_exec.adapters.blocking": ("BlockingAgentWorkspace",),
    "fable_exec.adapters.statuses": ("Completed", "Status", "completed", "refused", "status_of", "status_of_refusal"),
    "fable_exec.adapters.values": (
        "CommandDenial", "CommandFinished", "CommandOutput", "CommandStarted", "GlobResult", "LaunchSpec", "RunRequest",
        "WorkspaceEvent",
    ),
    "fable_exec.adapters.workspace": ("AgentWorkspace",),
}  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_demand(__name__, _MODULES)

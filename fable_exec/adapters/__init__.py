"""For agent frameworks: one workspace that they run commands and work on files in, and the adapters that stand on it.

`AgentWorkspace` is what every adapter uses, `BlockingAgentWorkspace` its twin for frameworks without asyncio. The adapters are
modules of their own (`fable_exec.adapters.mcp` and so on), each with an extra; importing this package loads no framework.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
    "blocking": ("BlockingAgentWorkspace",),
    "statuses": ("Completed", "Status", "completed", "refused", "status_of", "status_of_refusal"),
    "values": (
        "CommandDenial", "CommandFinished", "CommandOutput", "CommandStarted", "GlobResult", "LaunchSpec", "RunRequest",
        "WorkspaceEvent",
    ),
    "workspace": ("AgentWorkspace",),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

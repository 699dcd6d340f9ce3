"""Supervised executions: long jobs that outlive whoever started them, are never started twice, and end on record.

What a start needs is loaded with the first one, and ExecutionSpec with its first use: looking at executions costs little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fable_exec.supervisor.execution import Execution, UnreadableExecution
from fable_exec.supervisor.recovering import Done, Recovered
from fable_exec.supervisor.supervisor import Supervisor

if TYPE_CHECKING:
    from fable_exec.executions.spec import ExecutionSpec

__all__ = ["Done", "Execution", "ExecutionSpec", "Recovered", "Supervisor", "UnreadableExecution"]


def __getattr__(name: str) -> Any:
    if name != "ExecutionSpec":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fable_exec.executions.spec import ExecutionSpec

    globals()[name] = ExecutionSpec
    return ExecutionSpec

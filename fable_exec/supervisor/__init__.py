"""Supervised executions: long jobs that outlive whoever started them, are never started twice, and end on record.

What a start needs is loaded with the first one, and ExecutionSpec with its first use: looking at executions costs little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fable_exec.lazynames import on_demand
from fable_exec.supervisor.execution import Execution, UnreadableExecution
from fable_exec.supervisor.recovering import Done, Recovered
from fable_exec.supervisor.supervisor import Supervisor

if TYPE_CHECKING:
    from fable_exec.executions.spec import ExecutionSpec

__all__ = ["Done", "Execution", "ExecutionSpec", "Recovered", "Supervisor", "UnreadableExecution"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_demand(__name__, {"fable_exec.executions.spec": ("ExecutionSpec",)})

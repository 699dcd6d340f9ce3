"""Supervised executions: long jobs that outlive whoever asked for them, are never started twice, and end on record."""

from __future__ import annotations

from fable_exec.executions.spec import ExecutionSpec
from fable_exec.supervisor.execution import Execution, UnreadableExecution
from fable_exec.supervisor.recovering import Done, Recovered
from fable_exec.supervisor.supervisor import Supervisor

__all__ = ["Done", "Execution", "ExecutionSpec", "Recovered", "Supervisor", "UnreadableExecution"]

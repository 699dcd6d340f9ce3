"""One supervised execution as it lies on the disk: what it is asked for, its directory, its members, its locks and its bell.

Who keeps it is `keeper`, who starts, finds and stops it is `supervisor`; both speak through this room. It starts no process.
"""

from __future__ import annotations

from fable_exec.executions.directory import SCHEMA_VERSION, ExecutionDirectory, make_root
from fable_exec.executions.moments import now
from fable_exec.executions.names import default_root

__all__ = ["SCHEMA_VERSION", "ExecutionDirectory", "default_root", "make_root", "now"]

"""The broker: may it, and then do it, in the embedder's process. Blocking for threads, and native for asyncio."""

from __future__ import annotations

from fable_exec.broker.core import ExecutionBroker
from fable_exec.broker.explain import Explanation
from fable_exec.broker.started import StartedCommand

__all__ = ["ExecutionBroker", "Explanation", "StartedCommand"]

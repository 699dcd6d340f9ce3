"""The broker: may it, and then do it, in the embedder's process. Blocking for threads, and native for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fable_exec.broker.core import ExecutionBroker
from fable_exec.broker.explain import Explanation
from fable_exec.broker.started import StartedCommand

if TYPE_CHECKING:
    from fable_exec.broker.asynchronous import AsyncExecutionBroker, AsyncStartedCommand

__all__ = ["AsyncExecutionBroker", "AsyncStartedCommand", "ExecutionBroker", "Explanation", "StartedCommand"]


def __getattr__(name: str) -> Any:
    # Only hosts that use asyncio pay for it.
    if name in ("AsyncExecutionBroker", "AsyncStartedCommand"):
        from fable_exec.broker import asynchronous

        return getattr(asynchronous, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

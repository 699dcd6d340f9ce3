"""The broker: may it, and then do it, in the embedder's process. Blocking for threads, and native for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fable_exec.broker.core import ExecutionBroker
from fable_exec.broker.explain import Explanation
from fable_exec.broker.started import StartedCommand
from fable_exec.lazynames import on_demand

if TYPE_CHECKING:
    from fable_exec.broker.asynchronous import AsyncExecutionBroker, AsyncStartedCommand

__all__ = ["AsyncExecutionBroker", "AsyncStartedCommand", "ExecutionBroker", "Explanation", "StartedCommand"]

_MODULES = {"fable_exec.broker.asynchronous": ("AsyncExecutionBroker", "AsyncStartedCommand")}

if not TYPE_CHECKING:  # only hosts that use asyncio pay for it
    __getattr__, __dir__ = on_demand(__name__, _MODULES)

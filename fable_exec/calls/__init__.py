"""The typed calls that every door offers, once blocking and once for asyncio, over one method: `perform(request)`.

A broker in this process and a client of a spawned one differ only in how they perform. Nothing is decided or done here.
"""

from __future__ import annotations

from fable_exec.calls.asynchronous import AsyncCalls
from fable_exec.calls.blocking import BlockingCalls
from fable_exec.calls.handles import AsyncCommandHandle, CommandHandle, OnEvent

__all__ = ["AsyncCalls", "AsyncCommandHandle", "BlockingCalls", "CommandHandle", "OnEvent"]

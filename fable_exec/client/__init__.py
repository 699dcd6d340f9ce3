"""A broker in a process of its own: started, told its policy, spoken to, and ended by this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fable_exec.client.blocking import BrokerClient

if TYPE_CHECKING:
    from fable_exec.client.asynchronous import AsyncBrokerClient

__all__ = ["AsyncBrokerClient", "BrokerClient"]


def __getattr__(name: str) -> Any:
    # Only hosts that use asyncio pay for it.
    if name == "AsyncBrokerClient":
        from fable_exec.client.asynchronous import AsyncBrokerClient

        return AsyncBrokerClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

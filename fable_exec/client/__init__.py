"""A broker in a process of its own: started, told its policy, spoken to, and ended by this one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fable_exec.client.blocking import BrokerClient
from fable_exec.lazynames import on_demand

if TYPE_CHECKING:
    from fable_exec.client.asynchronous import AsyncBrokerClient

__all__ = ["AsyncBrokerClient", "BrokerClient"]

if not TYPE_CHECKING:  # only hosts that use asyncio pay for it
    __getattr__, __dir__ = on_demand(__name__, {"fable_exec.client.asynchronous": ("AsyncBrokerClient",)})

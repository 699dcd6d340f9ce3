"""A broker that is closed in the very moment in which it has started a command: its caller gets the error, and no handle."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from fable_exec import AsyncExecutionBroker, BrokerGone, ExecutionBroker
from fable_exec.broker.confined import ConfinedCommands
from fable_exec.runner import AsyncRunningCommand, Command, RunningCommand
from tests import hosts
from tests.doors import policy_for

pytestmark = pytest.mark.requires_ability("confinement")


class ClosedMeanwhile(ConfinedCommands):
    """Hands on what it has started when another thread has closed the broker."""

    broker: ExecutionBroker

    def start(self, command: Command, *, read_only: bool) -> RunningCommand:
        running = super().start(command, read_only=read_only)
        self._close_elsewhere()
        return running

    async def start_async(self, command: Command, *, read_only: bool) -> AsyncRunningCommand:
        running = await super().start_async(command, read_only=read_only)
        self._close_elsewhere()
        return running

    def _close_elsewhere(self) -> None:
        closing = threading.Thread(target=self.broker.close)
        closing.start()
        closing.join()


def closed_meanwhile(broker: ExecutionBroker) -> None:
    confined = broker.command_parts[1]
    assert isinstance(confined, ClosedMeanwhile)
    confined.broker = broker


def test_a_start_is_refused(workspace: Path) -> None:
    seconds = hosts.unique_sleep()
    with ExecutionBroker(policy_for(workspace), commands=ClosedMeanwhile) as broker:
        closed_meanwhile(broker)
        with pytest.raises(BrokerGone):
            broker.start_command(["sleep", seconds])
    assert not hosts.alive_with(seconds)


def test_a_start_in_a_loop_is_refused(workspace: Path) -> None:
    seconds = hosts.unique_sleep()

    async def start() -> None:
        async with AsyncExecutionBroker(policy_for(workspace), commands=ClosedMeanwhile) as broker:
            closed_meanwhile(broker.blocking)
            with pytest.raises(BrokerGone):
                await broker.start_command(["sleep", seconds])

    asyncio.run(start())
    assert not hosts.alive_with(seconds)

"""How trees end under confinement: also where the filter of plain mode is on the launcher that has to end them."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from fable_exec import AsyncExecutionBroker, CommandResult
from fable_exec.broker import StartedCommand
from fable_exec.protocol import Output
from tests.confinement.places import confined, confined_policy, in_modes
from tests.doors import TOKEN

ORPHANED_LATE = """
import os, signal
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        signal.pause()
held = bytearray(b"x") * (512 << 20)
print("ready", flush=True)
while True:
    signal.pause()
"""
"""The leader takes long to die, for all the memory it has to give back; its child is the launcher's only after that."""


@in_modes()
def test_a_child_that_is_orphaned_late_ends_with_the_rest(mode: str, workspace: Path) -> None:
    with confined(workspace, mode) as broker:
        for _ in range(3):
            with broker.start_command(("python3", "-c", ORPHANED_LATE)) as started:
                for event in started.events():
                    if isinstance(event, Output):
                        started.cancel()
                result = started.wait()
            assert result is not None
            end = next(each for each in result.confinement if each.protection == "whole_tree_end")
            assert (result.outcome.value, end.state) == ("cancelled", "active"), end.reason


PLANTER = 'mkdir sub; printf "#!/bin/sh\\n" > sub/.envrc; echo planted; sleep 60'


@in_modes("slots", "plain")
def test_what_a_command_planted_is_dealt_with_when_the_broker_is_closed_meanwhile(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, unlocked=True) as broker:
        started = broker.start_command(("bash", "-c", PLANTER))
        assert isinstance(started, StartedCommand)
        for event in started.events():
            if isinstance(event, Output):
                break
        broker.close()
    assert started.result is not None
    assert [each.path for each in started.result.denials if each.protection == "later_files"] == ["sub/.envrc"]
    assert not (workspace / "sub" / ".envrc").exists()


@in_modes("slots")
def test_nor_by_a_call_that_another_thread_waits_for(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, unlocked=True) as broker:
        caller = threading.Thread(target=lambda: broker.execute_command(("bash", "-c", PLANTER)))
        caller.start()
        while not (workspace / "sub" / ".envrc").exists():
            caller.join(0.01)
        broker.close()
        caller.join()
    assert not (workspace / "sub" / ".envrc").exists()


@in_modes("slots")
def test_nor_by_one_that_asyncio_waits_for(mode: str, workspace: Path) -> None:
    async def plant() -> CommandResult:
        async with AsyncExecutionBroker(confined_policy(workspace, mode)) as broker:
            await broker.unlock_writes(TOKEN)
            calling = asyncio.ensure_future(broker.execute_command(("bash", "-c", PLANTER)))
            while not (workspace / "sub" / ".envrc").exists():
                await asyncio.sleep(0.01)
        return await calling

    result = asyncio.run(plant())
    assert result.outcome.value in ("cancelled", "broker_lost")
    assert not (workspace / "sub" / ".envrc").exists()

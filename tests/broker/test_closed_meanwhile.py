"""A broker that is closed in the very moment in which it has started a command: its caller gets the error, and no handle."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fable_exec import AsyncExecutionBroker, BrokerGone, Conflict, ExecutionBroker, WritesLocked
from fable_exec.broker.confined import ConfinedCommands
from fable_exec.broker.recording import Recorder
from fable_exec.policy import AuditRules
from fable_exec.runner import AsyncRunningCommand, Command, RunningCommand
from tests import hosts
from tests.doors import DOORS, TOKEN, policy_for
from tests.waiting import LONG_SECONDS, until

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


def close_elsewhere(broker: ExecutionBroker, *, wholly: bool) -> None:
    """In another thread; `wholly`, or so far that it is refused from now on."""
    closing = threading.Thread(target=broker.close)
    closing.start()
    closing.join(LONG_SECONDS if wholly else 0)
    assert until(lambda: is_closed(broker))


def is_closed(broker: ExecutionBroker) -> bool:
    try:
        broker.refuse_closed()
    except BrokerGone:
        return True
    return False


CALLS: dict[str, Callable[[ExecutionBroker, str], object]] = {
    "probe": lambda broker, _: broker.probe(),
    "read": lambda broker, _: broker.inspect_files("file"),
    "write": lambda broker, _: broker.write_file("new", "x"),
    "append": lambda broker, _: broker.append("file", "x"),
    "edit": lambda broker, _: broker.edit_file("file", "text", "x"),
    "list": lambda broker, _: broker.list_directory(),
    "stat": lambda broker, _: broker.stat_path("file"),
    "make": lambda broker, _: broker.make_directory("place"),
    "move": lambda broker, _: broker.move_path("file", "moved"),
    "remove": lambda broker, _: broker.remove_path("file"),
    "search": lambda broker, _: broker.search_files("text"),
    "run": lambda broker, seconds: broker.execute_command(["sleep", seconds]),
    "start": lambda broker, seconds: broker.start_command(["sleep", seconds]),
    "background": lambda broker, seconds: broker.start_background(["sleep", seconds]),
    "background read": lambda broker, _: broker.read_command("command-1", 1.0),
    "background input": lambda broker, _: broker.write_stdin("command-1", "x"),
    "background cancel": lambda broker, _: broker.cancel_command("command-1"),
    "background list": lambda broker, _: broker.list_commands(),
}
ON_NOTHING = {"probe"}
"""What needs nothing that is given back."""


@pytest.mark.parametrize("after", [False, True], ids=["before its decision is written", "after it"])
@pytest.mark.parametrize("call", CALLS)
def test_every_call_ends_as_one_to_a_closed_broker(
    call: str, after: bool, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "file").write_text("text")
    (workspace / "file").chmod(0o600)
    seconds, write = hosts.unique_sleep(), Recorder.write
    with ExecutionBroker(policy_for(workspace, audit=AuditRules(path=tmp_path / "audit"))) as broker:
        broker.unlock_writes(TOKEN)
        broker.start_background(["sleep", seconds], keep_stdin_open=True)

        def closing(self: Recorder, kind: str, **facts: Any) -> None:
            monkeypatch.setattr(Recorder, "write", write)
            if after:
                write(self, kind, **facts)
            close_elsewhere(broker, wholly=call != "background")  # it is waited for by whoever closes
            if not after:
                write(self, kind, **facts)

        monkeypatch.setattr(Recorder, "write", closing)
        if call in ON_NOTHING and after:
            CALLS[call](broker, seconds)
        else:
            with pytest.raises(BrokerGone):
                CALLS[call](broker, seconds)
    assert not hosts.alive_with(seconds)
    assert (workspace / "file").read_text() == "text"
    assert sorted(path.name for path in workspace.iterdir()) == ["file"]


def _calls_of_a_storm(broker: Any, seconds: str) -> list[Callable[[], object]]:
    return [
        broker.probe,
        lambda: broker.write_file("file", "text"),
        lambda: broker.list_directory("."),
        lambda: broker.search_files("text"),
        lambda: broker.execute_command(["true"]),
        lambda: broker.execute_command(["sleep", seconds]),
        lambda: broker.read_command(broker.start_background(["sleep", seconds]).handle, 5.0),
        lambda: broker.list_commands(),
    ]


@pytest.mark.parametrize("door", ["in_process", "spawned"])
def test_fifty_threads_are_all_told_of_the_end(door: str, workspace: Path, tmp_path: Path) -> None:
    """Whatever they are at, they get a result or one of these errors, soon, and nothing goes on."""
    seconds, random = hosts.unique_sleep(), Random(door)
    broker = DOORS[door](policy_for(workspace, audit=AuditRules(path=tmp_path / "audit")))
    calls, begun = _calls_of_a_storm(broker, seconds), threading.Barrier(51)

    def call(number: int) -> str:
        begun.wait(30)
        for each in range(number, number + 1_000_000):
            try:
                calls[each % len(calls)]()
            except BrokerGone:
                return "gone"
            except (WritesLocked, Conflict):
                continue  # too many in the background
        raise AssertionError("never told")

    with ThreadPoolExecutor(50) as pool:
        told = [pool.submit(call, number) for number in range(50)]
        begun.wait(30)
        time.sleep(random.random() * 0.3)  # not to wait for anything: any moment will do
        broker.close()
        assert {each.result(60) for each in told} == {"gone"}
    assert not hosts.alive_with(seconds)

"""A forked copy of the host keeps a client's descriptors open: its broker ends all the same, with `close` and with the host."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fable_exec import AsyncBrokerClient, BrokerClient
from fable_exec.client.child import Child
from tests import hosts
from tests.doors import TOKEN, policy_for
from tests.waiting import until

pytestmark = [
    pytest.mark.requires_ability("confinement"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),  # that is the situation here
]


@contextmanager
def forked_copy() -> Iterator[None]:
    """A child that holds everything and does nothing."""
    child = os.fork()
    if child == 0:
        signal.alarm(600)
        signal.pause()
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that kills no broker which takes its time: what waits for a copy of a pipe waits for ever."""
    monkeypatch.setattr(Child.wait, "__defaults__", (600.0,))


@pytest.mark.usefixtures("patient")
def test_close_does_not_wait_for_copies_of_the_pipes(workspace: Path) -> None:
    client = BrokerClient(policy_for(workspace))
    client.unlock_writes(TOKEN)
    client.start_background(["sleep", "600"])
    with forked_copy():
        client.close()


@pytest.mark.usefixtures("patient")
def test_nor_does_the_client_of_a_loop(workspace: Path) -> None:
    async def use() -> None:
        client = AsyncBrokerClient(policy_for(workspace))
        assert (await client.execute_command(["true"])).success
        with forked_copy():
            await client.close()

    asyncio.run(use())


def test_what_is_in_flight_may_still_finish(workspace: Path) -> None:
    """The end of the input, not an order to stop: a command of another thread has its second."""
    program = """
    from fable_exec import BrokerClient
    from tests.doors import TOKEN, policy_for
    client = BrokerClient(policy_for(Path(sys.argv[1])))
    client.unlock_writes(TOKEN)
    said = []
    script = "echo > begun; sleep 0.3; echo said"
    thread = threading.Thread(target=lambda: said.append(client.execute_command(["bash", "-c", script]).stdout))
    thread.start()
    while not Path(sys.argv[1], "begun").exists():
        time.sleep(0.01)
    client.close()
    thread.join()
    answer(said)
    """
    assert hosts.answer_of(program, str(workspace)) == ["said\n"]


@pytest.mark.parametrize("kind", ["BrokerClient", "AsyncBrokerClient"])
def test_a_killed_host_takes_the_broker_with_it_although_a_copy_keeps_the_pipes(workspace: Path, kind: str) -> None:
    program = """
    import asyncio, fable_exec
    from tests.doors import TOKEN, policy_for
    async def begin():
        client = getattr(fable_exec, sys.argv[2])(policy_for(Path(sys.argv[1])))
        begun = client.unlock_writes(TOKEN)
        if begun is not None:
            await begun
        handle = client.start_background(["sleep", sys.argv[3]])
        if not hasattr(handle, "handle"):
            await handle
        copy = os.fork()
        if copy == 0:
            signal.alarm(60)
            signal.pause()
        answer([client.pid, copy])
        os.close(ANSWER)
        signal.pause()
    asyncio.run(begin())
    """
    seconds = hosts.unique_sleep()
    process, reading = hosts.start(program, str(workspace), kind, seconds, stderr=subprocess.DEVNULL)
    with os.fdopen(reading, "rb", buffering=0) as answers:
        broker, copy = json.loads(answers.read(4096))
    try:
        assert until(lambda: len(hosts.alive_with(seconds)) == 3)  # the host, its copy, and the command
        process.kill()
        process.wait(30)
        assert until(lambda: not os.path.exists(f"/proc/{broker}/exe"))
        assert hosts.alive_with(seconds) == [copy]
    finally:
        os.kill(copy, signal.SIGKILL)

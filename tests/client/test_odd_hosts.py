"""Clients in hosts that are not as most are: another event loop, closed standard descriptors."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from fable_exec import AsyncBrokerClient, BrokerPolicy, Conflict
from tests import hosts

_HOST = """
import os, sys
for number in map(int, sys.argv[3:]):
    os.close(number)
from fable_exec import BrokerClient, BrokerPolicy
with BrokerClient(BrokerPolicy(workspace=sys.argv[1], allowed_executables=("echo",))) as client:
    text = client.execute_command(["echo", "right"]).stdout
with open(sys.argv[2], "w") as file:
    file.write(text)
"""


@pytest.mark.requires_ability("confinement")
def test_a_client_used_from_a_second_loop_says_so_at_once(workspace: Path) -> None:
    client = AsyncBrokerClient(BrokerPolicy(workspace=workspace, allowed_executables=("true",)))

    async def first() -> None:
        assert (await client.execute_command(["true"])).success

    async def second() -> None:
        with pytest.raises(Conflict, match="another event loop"):
            await client.execute_command(["true"])

    with asyncio.Runner() as runner:
        runner.run(first())
        asyncio.run(second())
        runner.run(client.close())


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("closed", [("0",), ("1", "2"), ("0", "2"), ("0", "1"), ("0", "1", "2")], ids="-".join)
def test_a_host_without_standard_descriptors_has_a_client_too(workspace: Path, tmp_path: Path, closed: tuple[str, ...]) -> None:
    said = tmp_path / "said"
    done = subprocess.run([sys.executable, "-c", _HOST, str(workspace), str(said), *closed], timeout=60)
    assert (done.returncode, said.read_text()) == (0, "right\n")


@pytest.mark.parametrize("kind", ["BrokerClient", "AsyncBrokerClient"])
def test_a_host_that_dies_of_sigpipe_is_told_that_its_broker_is_gone(workspace: Path, kind: str) -> None:
    program = """
    import asyncio, fable_exec
    from fable_exec import BrokerGone
    from tests.doors import TOKEN, policy_for
    async def settled(answer):
        return await answer if hasattr(answer, "__await__") else answer
    async def use():
        told = []
        for ask in (lambda client: client.stat_path("."), lambda client: client.unlock_writes(TOKEN)):
            client = getattr(fable_exec, sys.argv[2])(policy_for(Path(sys.argv[1])))
            await settled(client.stat_path("."))
            os.kill(client.pid, signal.SIGKILL)
            while os.path.exists(f"/proc/{client.pid}/exe"):
                time.sleep(0.01)
            try:
                await settled(ask(client))
            except BrokerGone as gone:
                told.append(gone.code)
            await settled(client.close())
        answer(told)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    asyncio.run(use())
    """
    assert hosts.answer_of(program, str(workspace), kind) == ["broker-gone", "broker-gone"]

"""Clients in hosts that are not as most are: another event loop, closed standard descriptors."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from fable_exec import AsyncBrokerClient, BrokerPolicy, Conflict

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


@pytest.mark.parametrize("closed", [("0",), ("1", "2"), ("0", "2"), ("0", "1"), ("0", "1", "2")], ids="-".join)
def test_a_host_without_standard_descriptors_has_a_client_too(workspace: Path, tmp_path: Path, closed: tuple[str, ...]) -> None:
    said = tmp_path / "said"
    done = subprocess.run([sys.executable, "-c", _HOST, str(workspace), str(said), *closed], timeout=60)
    assert (done.returncode, said.read_text()) == (0, "right\n")

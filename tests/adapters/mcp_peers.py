"""Clients of the official SDK, connected to a server in process or over standard streams."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import jsonschema

from fable_exec import AsyncExecutionBroker, BrokerPolicy
from fable_exec.policy import dump_json
from tests.cli.typed import environment
from tests.doors import TOKEN


@attrs.define
class Peer:
    """A connected client, the workspace behind it, and the administrator's way in."""

    client: Any
    directory: Path
    admin: Callable[[dict[str, Any]], Any]
    tools: dict[str, Any] = attrs.field(factory=dict)

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The structured answer of a call that did its work: of the schema that is listed, and the same as its text."""
        result = await self.client.call_tool(name, arguments)
        assert not result.is_error, result.content
        if not self.tools:
            self.tools = {tool.name: tool for tool in (await self.client.list_tools()).tools}
        schema = self.tools[name].output_schema
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator(schema).validate(result.structured_content)
        assert [json.loads(part.text) for part in result.content] == [result.structured_content]
        answer: dict[str, Any] = result.structured_content
        return answer

    async def refused(self, name: str, **arguments: Any) -> str:
        """The text of a call that was refused, as the model reads it."""
        result = await self.client.call_tool(name, arguments)
        assert result.is_error and result.structured_content is None and len(result.content) == 1, result
        text: str = result.content[0].text
        assert 0 < len(text) < 10_000
        return text

    async def unlock(self) -> None:
        await asyncio.to_thread(self.admin, {"action": "unlock_writes", "token": TOKEN})

    async def lock(self) -> None:
        await asyncio.to_thread(self.admin, {"action": "lock_writes"})


@asynccontextmanager
async def in_process(policy: BrokerPolicy, *, mode: str = "auto", **of_client: Any) -> AsyncIterator[Peer]:
    """A client and a server in this process."""
    from mcp import Client

    from fable_exec.adapters.mcp import build_server

    async with AsyncExecutionBroker(policy) as broker:

        def admin(message: dict[str, Any]) -> None:
            unlocking = message["action"] == "unlock_writes"
            broker.blocking.unlock_writes(message["token"]) if unlocking else broker.blocking.lock_writes()

        view = of_client.pop("view", "host")
        async with Client(build_server(broker, view=view), mode=mode, **of_client) as client:
            yield Peer(client, policy.workspace, admin)


@asynccontextmanager
async def over_stdio(
    policy: BrokerPolicy, *, mode: str = "auto", flags: tuple[str, ...] = (), **of_client: Any
) -> AsyncIterator[Peer]:
    """A client and `fable-exec mcp` in a process of its own."""
    from mcp import Client, StdioServerParameters

    place = Path(tempfile.mkdtemp()).resolve()
    try:
        (place / "policy.json").write_text(dump_json(policy))
        channel = str(place / "admin")
        arguments = ["-P", "-m", "fable_exec", "mcp", "--policy", str(place / "policy.json"), "--admin-socket", channel, *flags]
        server = StdioServerParameters(command=sys.executable, args=arguments, env=environment())
        async with Client(server, mode=mode, **of_client) as client:
            yield Peer(client, policy.workspace, lambda message: told(channel, message))
    finally:
        shutil.rmtree(place)


def told(channel: str, message: dict[str, Any]) -> None:
    """Say it to the admin's socket."""
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(channel)
        door.sendall(json.dumps(message).encode() + b"\n")
        assert json.loads(door.makefile().readline())["ok"]

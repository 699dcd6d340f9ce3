"""A sandbox agent of OpenAI's Agents SDK in confined sessions, driven by the SDK's own loop and a model that reads from a script.

Needs the extra `openai-agents` (`pip install '.[openai-agents]'`), and no model:

    python examples/openai_agents_sandbox.py

A run in a session, and one that goes on in what that session left. Shows what the model was told of each call, and fails if a
protection did not hold or something was left behind.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from agents import RunConfig, Runner
from agents.sandbox import LocalSnapshotSpec, Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.entries import File
from agents.testing import ScriptedModel, assistant_message, function_call

from fable_exec.adapters.openai_agents_sandbox import FableSandboxClient

FIRST = (
    "python3 greet.py",
    "echo 'print(\"changed\")' >greet.py",
    "cat /etc/shadow; touch /usr/new; ls /home",
    "python3 -c 'import urllib.request as r; r.urlopen(\"http://example.com\", timeout=5)' 2>&1 | tail -n 1",
    "setsid sleep 4321 & sleep 4321",
)
SECOND = ("python3 greet.py",)


def agent_for(commands: tuple[str, ...]) -> Any:
    """One call of the shell for each command, and a last word."""
    turns = [
        [function_call("exec_command", {"cmd": command, "yield_time_ms": 1000}, call_id=f"call-{number}")]
        for number, command in enumerate(commands)
    ]
    return SandboxAgent(name="example", model=ScriptedModel([*turns, [assistant_message("done")]]))


async def told(commands: tuple[str, ...], sandbox: SandboxRunConfig) -> list[str]:
    """What the model was told of each command."""
    result = await Runner.run(agent_for(commands), "go", run_config=RunConfig(tracing_disabled=True, sandbox=sandbox))
    items: list[Any] = [*result.to_input_list()]
    outputs = [item["output"] for item in items if item.get("type") == "function_call_output"]
    for command, output in zip(commands, outputs, strict=True):
        print(f"$ {command}\n{output.partition('Output:')[2].strip()}\n")
    return outputs


def is_asleep() -> bool:
    """Whether a `sleep 4321` runs anywhere on this machine."""
    return any(b"sleep\x004321\x00" in _command_line(entry) for entry in filter(str.isdigit, os.listdir("/proc")))


def _command_line(process: str) -> bytes:
    try:
        return Path("/proc", process, "cmdline").read_bytes()
    except OSError:
        return b""


async def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "sessions")
        place.mkdir()
        client = FableSandboxClient(directory=place)
        manifest = Manifest(entries={"greet.py": File(content=b'print("hello")\n')})
        session = await client.create(manifest=manifest, snapshot=LocalSnapshotSpec(base_path=Path(folder, "snapshots")))
        async with session:
            hello, _, outside, net, sleeping = await told(FIRST, SandboxRunConfig(session=session))
        await client.delete(session)
        held = [
            "hello" in hello,
            "root:" not in outside and "Read-only file system" in outside,
            "error" in net,
            "running with session ID" in sleeping and not is_asleep(),
            list(place.iterdir()) == [],
        ]
        (changed,) = await told(SECOND, SandboxRunConfig(client=client, session_state=session.state))
        held += ["changed" in changed, list(place.iterdir()) == []]
    print("every protection held" if all(held) else f"a protection did not hold: {held}")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

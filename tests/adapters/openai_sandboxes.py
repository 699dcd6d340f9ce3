"""Sandbox sessions of OpenAI's SDK on this machine, and agents with a model that reads from a script that work in one.

The SDK is loaded when they are made.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fable_exec.testing.leaks import nothing_left
from tests.adapters.scripted_agents import quiet, scripted, told

__all__ = ["TERMINALS", "agent_of", "client_of", "kept_in", "manifest_of", "run_to_the_end", "said", "sandbox_run", "within"]

TERMINALS = pytest.mark.skipif(shutil.which("script") is None, reason="script is not installed")
"""For what has a terminal, which that program makes."""


def client_of(place: Path, *args: Any, **more: Any) -> Any:
    """A client whose sessions make their directories in `place`."""
    from fable_exec.adapters.openai_agents_sandbox import FableSandboxClient

    return FableSandboxClient(*args, directory=place, **more)


def manifest_of(root: Path | None = None, /, **files: str) -> Any:
    """What brings files with these texts, into a directory of the session's own or into `root`."""
    from agents.sandbox import Manifest
    from agents.sandbox.entries import File

    entries = {name: File(content=text.encode()) for name, text in files.items()}
    return Manifest(entries=entries, **({} if root is None else {"root": str(root)}))


def kept_in(directory: Path) -> Any:
    """Snapshots in this directory."""
    from agents.sandbox import LocalSnapshotSpec

    return LocalSnapshotSpec(base_path=directory)


def within(client: Any, body: Callable[[Any], Awaitable[Any]], *, manifest: Any = None, snapshot: Any = None) -> Any:
    """What `body` returns, in a session that is closed and deleted afterwards, and leaves nothing."""

    async def act() -> Any:
        session = await client.create(manifest=manifest, snapshot=snapshot)
        try:
            async with session:
                return await body(session)
        finally:
            await client.delete(session)

    with nothing_left():
        return asyncio.run(act())


def sandbox_run(client: Any, tmp_path: Path, **more: Any) -> Any:
    """A run in a sandbox of `client` that keeps its snapshots in `tmp_path`."""
    from agents.sandbox import SandboxRunConfig

    return quiet(sandbox=SandboxRunConfig(client=client, snapshot=kept_in(tmp_path / "snapshots"), **more))


def agent_of(*turns: Any, **more: Any) -> Any:
    """A sandbox agent that takes these turns."""
    from agents.sandbox import SandboxAgent

    return SandboxAgent(name="scripted", model=scripted(*turns), **more)


def run_to_the_end(client: Any, tmp_path: Path, *turns: Any, **more: Any) -> list[Any]:
    """What the model was told of each call by an agent in a sandbox, which leaves nothing."""
    from agents import Runner

    async def act() -> list[Any]:
        agent = agent_of(*turns, **{"default_manifest": manifest_of(), **more})
        result = await Runner.run(agent, "go", max_turns=len(turns) + 1, run_config=sandbox_run(client, tmp_path))
        assert result.final_output == "done"
        return [item["output"] for item in told(result)]

    with nothing_left():
        return asyncio.run(act())


def said(output: str) -> str:
    """What a command said, of what the SDK tells a model of it."""
    return output.partition("Output:\n")[2]

"""A pydantic-ai agent whose tools work in a confined workspace, driven by its own loop and a model that reads from a script.

Needs the extra `pydantic-ai` (`pip install '.[pydantic-ai]'`), and no model:

    python examples/pydantic_ai_agent.py

It works in a directory of its own, shows what the model was told of each call, and fails if a protection did not hold.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.workspaces import WorkspaceTimeoutError

from fable_exec import AsyncExecutionBroker, BrokerPolicy
from fable_exec.adapters import AgentWorkspace
from fable_exec.adapters.pydantic_ai import FableCapability

SCRIPT = (
    ("run", {"command": "echo hello from $PWD"}),
    ("run", {"command": "sleep 600 & sleep 600"}),
    ("run", {"command": "cat ../secret"}),
    ("write", {"path": "note.txt", "text": "locked"}),
    ("run", {"command": "echo locked >note.txt"}),
)


def scripted(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Stands in for a model: one call of the script after the other, and a last word."""
    turn = sum(isinstance(message, ModelResponse) for message in messages)
    return ModelResponse(parts=[ToolCallPart(*SCRIPT[turn]) if turn < len(SCRIPT) else TextPart("done")])


async def run(ctx: RunContext[None], command: str) -> str:
    """Run shell text in the workspace."""
    try:
        done = await ctx.workspace.run(command, shell=True, timeout=2)
    except WorkspaceTimeoutError as late:
        return f"[timed out]\n{late.stdout}"
    return f"[exit {done.exit_code}]\n{done.stdout}{done.stderr}"


async def write(ctx: RunContext[None], path: str, text: str) -> str:
    """Write a file of the workspace."""
    try:
        await ctx.workspace.write_text(path, text)
    except PermissionError as refused:
        raise ModelRetry(str(refused)) from refused
    return "written"


async def conversation(folder: Path) -> list[str]:
    """What the model is told of each call, in a workspace whose writes are locked, and beside which a secret lies."""
    (folder / "secret").write_text("the secret")
    (folder / "project").mkdir()
    policy = BrokerPolicy(workspace=folder / "project", allowed_executables=["sh", "cat", "sleep"])
    async with AsyncExecutionBroker(policy) as broker:
        agent = Agent(FunctionModel(scripted), tools=[run, write], capabilities=[FableCapability(AgentWorkspace(broker))])
        answer = await agent.run("try the workspace")
    parts = (part for message in answer.all_messages() for part in message.parts)
    return [str(part.content) for part in parts if isinstance(part, ToolReturnPart | RetryPromptPart)]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        told = asyncio.run(conversation(Path(folder)))
    for (tool, arguments), answer in zip(SCRIPT, told, strict=True):
        print(f"{tool} {arguments}\n{answer.rstrip()}\n")
    hello, late, secret, *writes = told
    held = hello.startswith("[exit 0]") and late.startswith("[timed out]") and "the secret" not in secret
    held = held and all("locked" in each or "Read-only" in each for each in writes)
    print("every protection held" if held else "a protection did not hold")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())

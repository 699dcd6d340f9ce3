"""Agents of pydantic-ai over our workspace: tools as its users write them, and a model that reads from a script.

For tests that have pydantic-ai; they import this when they run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.workspaces import WorkspaceOutputLimitError, WorkspaceTimeoutError

from fable_exec.adapters import AgentWorkspace
from fable_exec.adapters.pydantic_ai import FableCapability

Call = tuple[str, dict[str, Any]]


def scripted(*turns: Sequence[Call]) -> FunctionModel:
    """A model that makes the calls of one turn after the other, those of a turn at once, and then is done."""

    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        if turn >= len(turns):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart(name, arguments) for name, arguments in turns[turn]])

    return FunctionModel(answer)


def agent_over(workspace: AgentWorkspace | None, *turns: Sequence[Call], tool_timeout: float | None = None) -> Agent[None, str]:
    """An agent that does `turns`; None for one whose runs are given their workspace."""
    capabilities = [] if workspace is None else [FableCapability(workspace)]
    agent = Agent(scripted(*turns), capabilities=capabilities, tool_timeout=tool_timeout)
    for tool in (shell, command, write, read, copy_of):
        agent.tool(tool)
    return agent


async def told(workspace: AgentWorkspace, *turns: Sequence[Call], tool_timeout: float | None = None) -> list[Any]:
    """What the model is told of each call of `turns`, in their order."""
    answer = await agent_over(workspace, *turns, tool_timeout=tool_timeout).run("go")
    assert answer.output == "done"
    return told_in(answer.new_messages())


def told_in(messages: Sequence[ModelMessage]) -> list[Any]:
    """The results of tools among `messages`, and what a tool that asks for another try says."""
    requests = (message for message in messages if isinstance(message, ModelRequest))
    parts = (part for request in requests for part in request.parts)
    return [part.content for part in parts if isinstance(part, ToolReturnPart | RetryPromptPart)]


async def shell(ctx: RunContext[None], text: str, timeout: float | None = None) -> dict[str, Any]:
    """Run a text, and tell its limits with what came before them."""
    try:
        return asdict(await ctx.workspace.run(text, shell=True, timeout=timeout))
    except (WorkspaceTimeoutError, WorkspaceOutputLimitError) as ended:
        return {"ended": type(ended).__name__, "stdout": ended.stdout}


async def command(ctx: RunContext[None], words: list[str], cwd: str | None = None) -> dict[str, Any]:
    """Run a program."""
    more: dict[str, Any] = {} if cwd is None else {"cwd": cwd}  # pydantic-ai's own workspace knows none before 2.68
    return asdict(await ctx.workspace.run(words, **more))


async def write(ctx: RunContext[None], path: str, text: str) -> str:
    """Write a file."""
    try:
        await ctx.workspace.write_text(path, text)
    except PermissionError as refused:
        raise ModelRetry(f"{type(refused).__name__}: {refused}") from refused
    return "written"


async def read(ctx: RunContext[None], path: str) -> str:
    """Read a file."""
    try:
        return str(await ctx.workspace.read_text(path))
    except OSError as refused:
        raise ModelRetry(f"{type(refused).__name__}: {refused}") from refused


async def copy_of(ctx: RunContext[None], path: str, to: str) -> int:
    """Copy a file through this process; how many bytes there are."""
    data = await ctx.workspace.read_bytes(path)
    await ctx.workspace.write_bytes(to, data)
    return len(data)

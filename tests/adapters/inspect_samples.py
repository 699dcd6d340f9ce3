"""For the tests of the inspect-ai sandbox: samples and their directories, and a model that reads from a script."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fable_exec.adapters.inspect_ai_directories import PREFIX
from fable_exec.adapters.inspect_ai_operations import InspectOperations
from tests.cli.typed import is_running
from tests.waiting import until

__all__ = ["CONFINED", "Call", "began", "calls_of", "sample_names", "scripted", "within"]

CONFINED = pytest.mark.requires_ability("confinement")

Call = tuple[str, Mapping[str, Any]]


def within(body: Callable[[InspectOperations], Awaitable[Any]], document: str | None = None) -> Any:
    """What `body` returns, in a sample that is closed afterwards."""

    async def act() -> Any:
        sample = await InspectOperations.open(document)
        try:
            return await body(sample)
        finally:
            await sample.close()

    return asyncio.run(act())


async def began(sample: InspectOperations, marker: str) -> asyncio.Future[Any]:
    """A command that sleeps, in two processes that `marker` names."""
    running = asyncio.ensure_future(sample.execute(["sh", "-c", f"sleep {marker} & sleep {marker}"]))
    assert await asyncio.to_thread(until, lambda: is_running(marker))
    return running


def sample_names(place: Path) -> list[str]:
    """The directories of samples in `place`."""
    return sorted(name for name in os.listdir(place) if name.startswith(PREFIX))


def scripted(turns: Sequence[Sequence[Call]]) -> Any:
    """A model that makes these calls of tools, some in each turn, and is done then. Tells its own usage, to count nothing."""
    from inspect_ai.model import ModelUsage, get_model

    def turn(messages: list[Any], *_: Any) -> Any:
        at = sum(message.role == "assistant" for message in messages)
        said = calls_of(turns[at]) if at < len(turns) else calls_of([])
        said.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return said

    answers: Callable[..., Any] = turn
    return get_model("mockllm/model", custom_outputs=answers)


def calls_of(calls: Sequence[Call]) -> Any:
    """What a model says that makes these calls at once; "done" without any."""
    from inspect_ai.model import ChatMessageAssistant, ModelOutput
    from inspect_ai.tool import ToolCall

    made = [ToolCall(id=str(number), function=name, arguments=dict(given)) for number, (name, given) in enumerate(calls)]
    message = ChatMessageAssistant(content="" if made else "done", tool_calls=made or None, model="mockllm", source="generate")
    return ModelOutput.from_message(message, stop_reason="tool_calls" if made else "stop")

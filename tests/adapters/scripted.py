"""A chat model that reads from a script, for agent loops of LangChain and deepagents. It loads LangChain when it is made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

ToolCall = tuple[str, dict[str, Any]]
"""A tool's name and what it is called with."""


def scripted_model(turns: Iterable[ToolCall | list[ToolCall]]) -> Any:
    """One that makes the calls of each turn, those of a list at once, and then is done, whatever tools it is offered."""
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> Scripted:
            return self

    said = []
    for turn, calls in enumerate(turns):
        made = [
            {"name": name, "args": arguments, "id": f"{turn}-{number}"}
            for number, (name, arguments) in enumerate(calls if isinstance(calls, list) else [calls])
        ]
        said.append(AIMessage(content="", tool_calls=made))
    return Scripted(messages=iter([*said, AIMessage(content="done")]))


def told(answer: Any) -> list[Any]:
    """What the model was told of its calls, in order."""
    return [message for message in answer["messages"] if message.type == "tool"]

"""Agents of OpenAI's SDK with a model that reads from a script: the turns that it takes, and what it was told of each."""

from __future__ import annotations

import itertools
from typing import Any

__all__ = ["as_events", "patch_call", "quiet", "sandbox_patch", "scripted", "shell_tool_call", "told", "tool_call"]

_numbers = itertools.count()


def scripted(*turns: Any) -> Any:
    """A model that takes these turns, and then is done."""
    from agents.testing import ScriptedModel, assistant_message

    return ScriptedModel([*turns, [assistant_message("done")]])


def quiet(**more: Any) -> Any:
    """A run that sends nothing anywhere."""
    from agents import RunConfig

    return RunConfig(tracing_disabled=True, **more)


def shell_tool_call(*commands: str, **more: Any) -> dict[str, Any]:
    """A call of the SDK's ShellTool."""
    return {
        "type": "shell_call",
        **_named(),
        "action": {"commands": list(commands), "timeout_ms": None, "max_output_length": None, **more},
    }


def patch_call(kind: str, path: str, diff: str | None = None, **more: Any) -> dict[str, Any]:
    """A call of the SDK's ApplyPatchTool."""
    operation = {"type": kind, "path": path, **({} if diff is None else {"diff": diff}), **more}
    return {"type": "apply_patch_call", **_named(), "operation": operation}


def as_events(call: dict[str, Any]) -> Any:
    """The turn of a model that streams, with one call of the SDK's ShellTool."""
    from agents.testing import ModelStep
    from openai.types.responses import Response, ResponseCompletedEvent, ResponseFunctionShellToolCall

    response = Response(
        id="response",
        created_at=0,
        model="scripted",
        object="response",
        output=[ResponseFunctionShellToolCall.model_validate(call)],
        tool_choice="none",
        tools=[],
        parallel_tool_calls=False,
    )
    return ModelStep.stream([ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)])


def tool_call(name: str, **arguments: Any) -> Any:
    """A call of a function tool, such as those of a sandbox."""
    from agents.testing import function_call

    return function_call(name, arguments, call_id=f"call-{next(_numbers)}")


def sandbox_patch(text: str) -> Any:
    """A call of the patch tool of a sandbox, which takes text."""
    from openai.types.responses import ResponseCustomToolCall

    return ResponseCustomToolCall(type="custom_tool_call", call_id=f"call-{next(_numbers)}", name="apply_patch", input=text)


def told(result: Any) -> list[dict[str, Any]]:
    """What the model was told, one item for each call."""
    return [item for item in result.to_input_list() if str(item.get("type", "")).endswith("_output")]


def _named() -> dict[str, str]:
    number = next(_numbers)
    return {"id": f"item-{number}", "call_id": f"call-{number}", "status": "completed"}

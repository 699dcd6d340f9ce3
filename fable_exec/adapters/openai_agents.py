"""OpenAI's Agents SDK: its shell tool and its patch tool, under a policy. Needs the extra `openai-agents`."""

from __future__ import annotations

from functools import partial
from typing import Any

from fable_exec.adapters.openai_agents_operations import OpenAiAgentsOperations, Patched, ShellOutput
from fable_exec.adapters.workspace import AgentWorkspace
from fable_exec.errors import ExtraMissing

try:
    from agents import ApplyPatchTool, ShellCallOutcome, ShellCommandOutput, ShellResult, ShellTool
    from agents.apply_diff import apply_diff
    from agents.editor import ApplyPatchResult
except ImportError as error:
    raise ExtraMissing.of("openai-agents", error.name or "agents") from error

__all__ = ["FablePatchEditor", "patch_tool", "shell_tool"]


def shell_tool(workspace: AgentWorkspace, **options: Any) -> ShellTool:
    """A tool that runs a model's shell commands; each command's whole tree is dead when it returns or is cancelled.

    Args:
        workspace: of the loop that agents run in; it stays the caller's.
        options: further arguments of ShellTool, such as `needs_approval`.
    """
    operations = OpenAiAgentsOperations(workspace)

    async def execute(request: Any) -> ShellResult:
        action = request.data.action
        length = action.max_output_length
        outputs = await operations.run(action.commands, timeout_ms=action.timeout_ms, max_output_length=length)
        return ShellResult(output=[_told(each) for each in outputs], max_output_length=length)

    return ShellTool(executor=execute, **options)


def patch_tool(workspace: AgentWorkspace, **options: Any) -> ApplyPatchTool:
    """A tool that applies a model's patches; `options` are further arguments of ApplyPatchTool."""
    return ApplyPatchTool(editor=FablePatchEditor(workspace), **options)


class FablePatchEditor:
    """An editor for ApplyPatchTool: a patch is made whole, or the file stays as it was and the result says why."""

    def __init__(self, workspace: AgentWorkspace) -> None:
        self._operations = OpenAiAgentsOperations(workspace)

    async def create_file(self, operation: Any) -> ApplyPatchResult:
        return _result(await self._operations.create(operation.path, operation.diff or "", partial(apply_diff, mode="create")))

    async def update_file(self, operation: Any) -> ApplyPatchResult:
        # Versions before 0.24 have no `move_to`.
        moved = getattr(operation, "move_to", None)
        return _result(await self._operations.update(operation.path, operation.diff or "", apply_diff, move_to=moved))

    async def delete_file(self, operation: Any) -> ApplyPatchResult:
        return _result(await self._operations.delete(operation.path))


def _told(output: ShellOutput) -> ShellCommandOutput:
    outcome = ShellCallOutcome(type="timeout" if output.exit_code is None else "exit", exit_code=output.exit_code)
    return ShellCommandOutput(command=output.command, stdout=output.stdout, stderr=output.stderr, outcome=outcome)


def _result(patched: Patched) -> ApplyPatchResult:
    return ApplyPatchResult(status="completed" if patched.made else "failed", output=patched.output)

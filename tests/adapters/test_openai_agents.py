"""The tools for OpenAI's Agents SDK, called as the SDK calls them. Where it is not installed this is skipped.

What the tools do is tried by test_openai_agents_operations.py, which does not need it.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from fable_exec.adapters import AgentWorkspace
from tests.adapters.places import shell_policy, within

pytestmark = [pytest.mark.requires_ability("openai_agents"), pytest.mark.requires_ability("confinement")]


def test_the_tools_answer_in_the_classes_of_the_sdk(workspace: Path) -> None:
    from agents import ShellActionRequest, ShellResult
    from agents.editor import ApplyPatchOperation

    from fable_exec.adapters.openai_agents import patch_tool, shell_tool

    async def body(agent_workspace: AgentWorkspace) -> None:
        action = ShellActionRequest(commands=["echo hi", "exit 3"], timeout_ms=5000, max_output_length=100)
        answer = await shell_tool(agent_workspace).executor(SimpleNamespace(data=SimpleNamespace(action=action)))
        assert isinstance(answer, ShellResult)
        assert [(each.stdout, each.outcome.type, each.outcome.exit_code) for each in answer.output] == [
            ("hi\n", "exit", 0),
            ("", "exit", 3),
        ]
        editor = patch_tool(agent_workspace).editor
        made = await editor.create_file(ApplyPatchOperation(type="create_file", path="file", diff="+eins\n+zwei"))
        assert made.status == "completed"
        changed = await editor.update_file(ApplyPatchOperation(type="update_file", path="file", diff="@@\n-eins\n+drei"))
        assert (changed.status, (workspace / "file").read_text()) == ("completed", "drei\nzwei")

    within(shell_policy(workspace), body, unlocked=True)

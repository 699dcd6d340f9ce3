"""LangChain's shell tool in a confined session, driven by its own agent loop and a model that reads from a script.

Needs the extra `langchain` (`pip install '.[langchain]'`), and no model:

    python examples/langchain_shell.py

It runs in a directory of its own, shows what the model was told of each command, and fails if a protection did not hold.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ShellToolMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from fable_exec import AsyncExecutionBroker, BrokerPolicy
from fable_exec.adapters import BlockingAgentWorkspace
from fable_exec.adapters.langchain import FableExecutionPolicy

SCRIPT = ("name=fable; cd /", 'echo "$name in $PWD"', 'touch "$OLDPWD/new"', "sleep 60", "echo after the timeout")


class ScriptedModel(GenericFakeChatModel):  # type: ignore[misc, unused-ignore]  # LangChain may not be there where types are checked
    """Says what it was given, whatever tools it is offered."""

    def bind_tools(self, tools: Any, **_: Any) -> ScriptedModel:
        return self


def calls() -> list[AIMessage]:
    """One call of the shell for each line of the script, and a last word."""
    made = [
        AIMessage(content="", tool_calls=[{"name": "shell", "args": {"command": command}, "id": str(number)}])
        for number, command in enumerate(SCRIPT)
    ]
    return [*made, AIMessage(content="done")]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        broker = AsyncExecutionBroker(BrokerPolicy(workspace=folder, allowed_executables=["bash"]))
        with BlockingAgentWorkspace(broker) as workspace:
            policy = FableExecutionPolicy(agent_workspace=workspace, command_timeout=3)
            shell = ShellToolMiddleware(workspace_root=folder, execution_policy=policy)
            agent = create_agent(ScriptedModel(messages=iter(calls())), middleware=[shell])
            answer = agent.invoke({"messages": [("user", "try the shell")]})
    told = [message for message in answer["messages"] if message.type == "tool"]
    for command, message in zip(SCRIPT, told, strict=True):
        print(f"$ {command}\n{message.content.rstrip()}\n")
    held = [message.status for message in told] == ["success", "success", "error", "error", "success"]
    print("every protection held" if held else "a protection did not hold")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())

"""A deepagents agent in a confined workspace, driven by deepagents' own agent loop and a model that reads from a script.

Needs the extra `deepagents` (`pip install '.[deepagents]'`), and no model:

    python examples/deepagents_agent.py

It runs in a directory of its own, shows what the model was told of each call, and fails if a protection did not hold. The agent
begins while writes are locked; the administrator, who alone has the token, unlocks them for the second half.
"""

from __future__ import annotations

import hashlib
import secrets
import sys
import tempfile
from pathlib import Path
from typing import Any

from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from fable_exec import AsyncExecutionBroker, BrokerPolicy
from fable_exec.adapters import BlockingAgentWorkspace
from fable_exec.adapters.deepagents import FableBackend

Call = tuple[str, dict[str, Any], str]
"""A tool, what it is called with, and what the model must be told."""


class ScriptedModel(GenericFakeChatModel):  # type: ignore[misc, unused-ignore]  # LangChain may not be there where types are checked
    """Says what it was given, whatever tools it is offered."""

    def bind_tools(self, tools: Any, **_: Any) -> ScriptedModel:
        return self


def while_locked(root: str) -> list[Call]:
    return [
        ("ls", {"path": root}, "notes.txt"),
        ("read_file", {"file_path": f"{root}/notes.txt"}, "buy milk"),
        ("write_file", {"file_path": f"{root}/new.txt", "content": "x"}, "writes are locked"),
        ("execute", {"command": "echo x >>notes.txt"}, "Read-only file system"),
    ]


def while_unlocked(root: str) -> list[Call]:
    return [
        ("write_file", {"file_path": f"{root}/greet.sh", "content": "echo grüße, $1\n"}, "Updated file"),
        ("edit_file", {"file_path": f"{root}/greet.sh", "old_string": "$1", "new_string": '"$@"'}, "replaced 1"),
        ("execute", {"command": "sh greet.sh 世界"}, "grüße, 世界"),
        ("grep", {"pattern": "grüße", "output_mode": "content"}, '1: echo grüße, "$@"'),
        ("glob", {"pattern": "*.{sh,py}"}, "greet.sh"),
        ("read_file", {"file_path": f"{root}/../secret.txt"}, "not allowed"),
        ("read_file", {"file_path": "/etc/passwd"}, "permission_denied"),
        ("execute", {"command": "cat ../secret.txt"}, "failed with exit code"),
        ("execute", {"command": "echo begun; sleep 60", "timeout": 1}, "begun\n[ended: timed_out]"),
        ("execute", {"command": "yes"}, "[Output was truncated due to size limits]"),
        ("execute", {"command": "echo still here"}, "still here"),
    ]


def held(backend: FableBackend, calls: list[Call]) -> bool:
    """Let an agent make these calls, show what it was told, and whether that is what it must be."""
    made = [
        AIMessage(content="", tool_calls=[{"name": name, "args": arguments, "id": str(number)}])
        for number, (name, arguments, _) in enumerate(calls)
    ]
    agent = create_deep_agent(ScriptedModel(messages=iter([*made, AIMessage(content="done")])), backend=backend)
    answer = agent.invoke({"messages": [("user", "try the tools")]})
    told = [str(message.content) for message in answer["messages"] if message.type == "tool"]
    for (name, arguments, _), text in zip(calls, told, strict=True):
        print(f"{name} {arguments}\n  {text[:200].strip()!r}\n")
    return all(expected in text for (_, _, expected), text in zip(calls, told, strict=True))


def main() -> int:
    token = secrets.token_hex()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "workspace"
        root.mkdir()
        (root.parent / "secret.txt").write_text("for nobody else\n")
        (root / "notes.txt").write_text("buy milk\n")
        policy = BrokerPolicy(
            workspace=root,
            allowed_executables=["sh"],
            max_output_bytes=20_000,
            write_token_digest=hashlib.sha256(token.encode()).hexdigest(),
        )
        broker = AsyncExecutionBroker(policy)
        with BlockingAgentWorkspace(broker) as workspace:
            backend = FableBackend(workspace)
            locked = held(backend, while_locked(str(root)))
            workspace.call(lambda _: broker.unlock_writes(token))
            unlocked = held(backend, while_unlocked(str(root)))
    print("every protection held" if locked and unlocked else "a protection did not hold")
    return 0 if locked and unlocked else 1


if __name__ == "__main__":
    sys.exit(main())

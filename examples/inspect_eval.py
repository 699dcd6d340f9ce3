"""An evaluation of inspect-ai whose samples are confined: its own tools, its own loop, and a model that reads from a script.

Needs the extra `inspect-ai` (`pip install '.[inspect-ai]'`), and neither a model nor a container:

    python examples/inspect_eval.py

It shows what the model was told of each call, and fails if a protection did not hold.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import Model, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash, python, text_editor

SCRIPT: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("bash", {"command": "cat given.txt made-by-setup"}),
    ("python", {"code": "print(sum(map(int, open('given.txt'))))"}),
    ("text_editor", {"command": "create", "path": "/tmp/answer.txt", "file_text": "42\n"}),
    ("bash", {"command": "cat /tmp/answer.txt"}),
    ("bash", {"command": "touch /usr/bin/new || echo refused"}),
    ("bash", {"command": "setsid sleep 600 & sleep 600"}),
    ("bash", {"command": "ls; ps ax | grep -c '[s]leep 600'"}),
)
ENDINGS = ("20\n22\nsetup\n", "42\n", "", "42\n", "refused\n", "", "given.txt\nmade-by-setup\n0\n")


def scripted() -> Model:
    """A model that makes the calls of the script, one in each turn."""

    def turn(messages: list[Any], *_: Any) -> ModelOutput:
        at = sum(message.role == "assistant" for message in messages)
        said = ModelOutput.for_tool_call("mockllm", SCRIPT[at][0], dict(SCRIPT[at][1])) if at < len(SCRIPT) else None
        said = said or ModelOutput.from_content("mockllm", "the answer is 42")
        said.usage = ModelUsage()  # or inspect-ai would count tokens, with tables that it downloads
        return said

    return get_model("mockllm/model", custom_outputs=turn)


def evaluated(folder: str) -> EvalLog:
    """The log of four samples, each in a sandbox of its own, where a command may run for two seconds."""
    policy = Path(folder, "policy.toml")
    policy.write_text("[limits]\nmax_timeout_seconds = 120\nprocesses = 50\n")
    sample = {
        "input": "Add what is given.",
        "target": "42",
        "files": {"given.txt": "20\n22\n"},
        "setup": "echo setup > made-by-setup",
    }
    task = Task(
        dataset=[Sample(**sample) for _ in range(4)],
        solver=[use_tools(bash(timeout=2), python(), text_editor()), generate()],
        scorer=includes(),
        sandbox=("fable", str(policy)),
    )
    (log,) = eval(task, model=scripted(), display="none", log_dir=os.path.join(folder, "logs"))
    return log


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        return shown(evaluated(folder))


def shown(log: EvalLog) -> int:
    """Print what the first sample's model was told; returns the exit status."""
    if log.status != "success" or not log.samples or not log.results:
        print(log.error, file=sys.stderr)
        return 1
    told = [[message for message in sample.messages if message.role == "tool"] for sample in log.samples]
    for (tool, given), message in zip(SCRIPT, told[0], strict=True):
        answer = f"[{message.error.type}] {message.error.message}" if message.error else message.text.rstrip()
        print(f"{tool} {' '.join(given.values())!r}\n{answer}\n")
    held = all(
        [message.text.endswith(ending) for message, ending in zip(each, ENDINGS, strict=True)] == [True] * len(SCRIPT)
        and [message.error.type for message in each if message.error] == ["timeout"]
        for each in told
    )
    print(f"{len(told)} samples, accuracy {log.results.scores[0].metrics['accuracy'].value}")
    print("every protection held" if held else "a protection did not hold")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())

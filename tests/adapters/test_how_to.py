"""What the how-to page for agent frameworks shows runs in each of them, with a scripted model that reads the notes."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fable_exec.testing.leaks import nothing_left
from tests.adapters.scripted import scripted_model
from tests.adapters.scripted import told as told_by_langchain
from tests.adapters.scripted_agents import scripted as scripted_agents_model
from tests.adapters.scripted_agents import shell_tool_call, tool_call
from tests.adapters.scripted_agents import told as told_by_agents
from tests.cli.typed import PROJECT
from tools import test_with

PAGE = (PROJECT / "docs/how-to/use-in-an-agent-framework.md").read_text()
README = (PROJECT / "README.md").read_text()
TOKEN = "the admin's secret"
READ = "cat notes.txt"

Told = Callable[[Any], list[Any]]


def _langchain() -> tuple[Any, Told]:
    return scripted_model([("shell", {"command": READ})]), told_by_langchain


def _deepagents() -> tuple[Any, Told]:
    return scripted_model([("execute", {"command": READ})]), told_by_langchain


def _pydantic_ai() -> tuple[Any, Told]:
    from tests.adapters.pydantic_ai_agents import scripted, told_in

    return scripted([("run", {"command": READ})]), lambda answer: told_in(answer.new_messages())


def _tools() -> tuple[Any, Told]:
    return _agents(shell_tool_call(READ))


def _sandbox() -> tuple[Any, Told]:
    return _agents(tool_call("exec_command", cmd=READ))


def _agents(call: Any) -> tuple[Any, Told]:
    from agents import set_tracing_disabled

    set_tracing_disabled(True)  # a trace is sent to its vendor, by a thread that stays
    return scripted_agents_model([call]), told_by_agents


def _case(ability: str, heading: str, number: int, model: Callable[[], tuple[Any, Told]]) -> Any:
    return pytest.param(heading, number, model, marks=pytest.mark.requires_ability(ability), id=f"{heading} {number}")


@pytest.mark.requires_ability("confinement")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")  # LangChain's pipes
@pytest.mark.parametrize(
    ("heading", "number", "scripted"),
    [
        _case("langchain", "LangChain", 0, _langchain),
        _case("deepagents", "deepagents", 0, _deepagents),
        _case("pydantic_ai", "pydantic-ai", 0, _pydantic_ai),
        _case("openai_agents", "OpenAI Agents SDK", 0, _tools),
        _case("openai_agents", "OpenAI Agents SDK", 1, _sandbox),
    ],
)
def test_what_the_page_shows_for_a_framework_runs_there(
    heading: str, number: int, scripted: Callable[[], tuple[Any, Told]], workspace: Path
) -> None:
    (workspace / "notes.txt").write_text("remember the milk\n")
    model, told = scripted()
    names = {"folder": str(workspace), "token": TOKEN, "digest": hashlib.sha256(TOKEN.encode()).hexdigest(), "model": model}
    with nothing_left():
        exec(_examples(heading)[number], names)
    assert ["remember the milk" in str(each) for each in told(names["answer"])] == [True]


def test_no_example_of_the_page_is_left_untried() -> None:
    assert {heading: len(_examples(heading)) for heading in re.findall(r"^## (.*)$", PAGE, re.MULTILINE)} == {
        "LangChain": 1,
        "deepagents": 1,
        "pydantic-ai": 1,
        "OpenAI Agents SDK": 2,
        "inspect-ai": 0,
        "Another framework": 0,
    }


@pytest.mark.parametrize("text", [PAGE, README], ids=["page", "README"])
def test_every_adapter_is_found_by_its_extra_and_every_example_is_there(text: str) -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    rows = [line for line in text.splitlines() if line.startswith("| [")]
    assert {row.split("|")[2].strip(" `") for row in rows} == set(test_with.adapters(project))
    named = set(re.findall(r"`(?:examples/)?(\w+\.py)`", text))
    assert named and all((PROJECT / "examples" / name).exists() for name in named)


def _examples(heading: str) -> list[str]:
    section = re.split(rf"^## {re.escape(heading)}$", PAGE, flags=re.MULTILINE)[1].split("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)

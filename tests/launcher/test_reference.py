"""The pages of the launcher and the keeper program name every message that is sent, and count as the tests do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.shapes import SHAPES

PROJECT = Path(__file__).resolve().parents[2]
REFERENCE = PROJECT / "docs/reference"
SENDERS = {"send", "_say", "_tell", "report", "_answer", "_give_up"}
"""What a message is given to, in both programs."""


LAUNCHER, KEEPER = (sorted((PROJECT / "fable_exec" / package).glob("*.py")) for package in ("_launcher", "keeper"))
OF_A_JOB = [path for path in LAUNCHER if path.name in ("job_init.py", "job_leader.py")]
OF_COMMANDS = [path for path in LAUNCHER if path not in OF_A_JOB and not path.name.startswith("deadline")]


def words_sent(paths: Iterable[Path]) -> Iterator[str]:
    """The members of each message that is written where it is sent, and each message that is a word."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in SENDERS:
                for argument in node.args:
                    keys = argument.keys if isinstance(argument, ast.Dict) else [argument]
                    yield from (key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))


@pytest.mark.parametrize(
    ("page", "paths"), [("launcher.md", OF_COMMANDS), ("keeper.md", [*KEEPER, *OF_A_JOB])], ids=["launcher", "keeper"]
)
def test_every_message_stands_in_the_table(page: str, paths: list[Path]) -> None:
    table = (REFERENCE / page).read_text().partition("## Messages")[2].partition("\n\n## ")[0]
    named = {word for code in re.findall(r"`([^`]+)`", table) for word in (code.strip('"'), *re.findall(r"\w+", code))}
    sent = set(words_sent(paths))
    assert len(sent) > 5
    assert sent - named == set()


def test_the_page_counts_the_trees_that_are_hard_to_end() -> None:
    assert f"how {len(SHAPES)} trees that are hard to end" in (REFERENCE / "launcher.md").read_text()

"""Every vector against its working tree and bound to its run: the page says what is answered, and why where it differs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fable_exec.proofbind import Axis
from tools import proof_table
from tools import proof_tree_table as tool

pytestmark = [pytest.mark.requires_ability("git"), pytest.mark.requires_ability("gpg")]

PAGE = tool.PAGE.read_text()
ROWS = {
    row.split("|")[1].strip(" `"): f"{row}\n"
    for row in PAGE.partition(tool.BEGIN)[2].partition(tool.END)[0].splitlines()
    if row.startswith("| `")
}
ROOM = tool.PAGE.parents[2] / "fable_exec/proofbind"


def test_every_vector_is_in_the_table_and_nothing_else() -> None:
    assert list(ROWS) == proof_table.names()


@pytest.mark.parametrize("name", proof_table.names())
def test_the_row_of_a_vector_is_what_is_answered_and_each_difference_has_a_rule(name: str) -> None:
    assert ROWS[name] == tool.row(name), "write the table again with `python tools/proof_tree_table.py`"
    assert all(tool.explained(name).values()), tool.explained(name)
    theirs, mine = tool.reference(name), tool.answers()[name]
    assert theirs["bound"] is True or mine.fields["bound"] is False, "nothing is bound here that is not bound there"
    if mine.fields["exit"] == 0 and theirs["exit"] != 0:
        assert tool.explained(name)["exit"] == ["environment"], "only what depended on an environment is taken here and not there"


def test_every_rule_is_used_and_said_on_the_page_and_no_other() -> None:
    said = re.findall(r"^\| `([a-z-]+)` \|", PAGE.partition("Beside the rules above:")[2].partition(tool.BEGIN)[0], re.MULTILINE)
    used = {rule for row in ROWS.values() for rule in row.split("|")[5].replace(",", " ").split()}
    known = {rule.name for rule in tool.RULES}
    assert set(said) == {name for name in known if f"| `{name}` |" not in PAGE.partition("Beside the rules above:")[0]}
    assert known <= used


def _calls(path: Path) -> Iterator[tuple[str, str, str]]:
    """Of each call with two arguments or more its name, the attribute that is the first, and the text that is first or second."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and len(node.args) > 1:
            first, second = node.args[:2]
            of_texts = [str(each.value) for each in (first, second) if isinstance(each, ast.Constant)]
            yield getattr(node.func, "id", ""), first.attr if isinstance(first, ast.Attribute) else "", "".join(of_texts[:1])


def _reasons_in_code() -> set[str]:
    """Of the axes that a document alone does not have."""
    found = {f"tree-unstable-{why}" for why in ("changed", "writer", "unproven")}
    for module in ("drift.py", "binding.py"):
        for name, axis, why in _calls(ROOM / module):
            if name in ("failed", "unchecked") and axis and why:
                found.add(f"{Axis[axis].value.replace('_', '-')}-{why}")
            if name == "unchecked_drift" and why != "not-asked":
                found |= {f"{each}-{why}" for each in ("diff", "tree")}
    return found


def _reasons_of_changes() -> set[str]:
    paths = [ROOM / "drift.py", *(ROOM / "changes").glob("*.py")]
    return {f"diff-{why}" for path in paths for name, _, why in _calls(path) if name == "CannotTell"}


def test_the_page_lists_every_reason_and_no_other() -> None:
    section = PAGE.partition("## Against a working tree")[2].partition("## Beside the reference")[0]
    rows = re.findall(r"^\| `(diff|tree|tree_fields|document|run_id|freshness)` \| (.*)\|$", section, re.MULTILINE)
    said = {reason for axis, row in rows for reason in re.findall(rf"`({axis.replace('_', '-')}-[a-z-]*[a-z])`", row)}
    words = section.partition("| `diff-` |")[2].partition("\n\n")[0]
    said |= {
        f"diff-{word}" for row in re.findall(r"^\| (`[^|]*) \|", words, re.MULTILINE) for word in re.findall(r"`([a-z-]+)`", row)
    }
    said -= {"diff-filter"}
    assert said == _reasons_in_code() | _reasons_of_changes()

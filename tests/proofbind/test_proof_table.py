"""The page of proof documents: its table is what is answered, each difference has a rule, and each reason stands in it."""

from __future__ import annotations

import ast
import json
import re

import pytest

from fable_exec.proofbind import ProofDocument, parse_document, verify_integrity
from fable_exec.proofbind.headline import LOKI_VERIFIER, derived_headlines
from fable_exec.proofbind.signatures import SignatureStatus
from tools import proof_table as tool

PAGE = tool.PAGE.read_text()
TABLE = PAGE.partition(tool.BEGIN)[2].partition(tool.END)[0]
ROWS = {name: row for row, name in re.findall(r"^(\| `(\w+)` \|.*\n)", TABLE, re.MULTILINE)}
NAMES = tool.names()
OF_FACTS = ("headline", "degraded", "execution", "gates")
BY_THE_DOCUMENT_ALONE = ("coherence", "documents", "gaps", "headline", "seal")


def test_every_vector_is_in_the_index_and_in_the_table_and_nothing_else() -> None:
    there = sorted(path.name.removesuffix(".expected.json") for path in tool.VECTORS.glob("*.expected.json"))
    assert there == sorted(NAMES) == sorted(ROWS)
    assert len(there) == 107


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.requires_ability("gpg") if name.startswith("gpg") else ()) for name in NAMES]
)
def test_the_row_of_a_vector_is_what_is_answered_and_each_difference_has_a_rule(name: str) -> None:
    assert ROWS[name] == tool.row(name), "write the table again with `python tools/proof_table.py`"
    assert all(tool.explained(name).values()), tool.explained(name)
    theirs, mine = tool.reference(name), tool.ours(name)
    if mine.ok and not theirs.fields["ok"]:
        assert tool.explained(name)["ok"] == ["environment"], "only what depended on an environment is taken here and not there"


def test_the_canonical_bytes_and_what_follows_from_the_facts_are_those_of_the_reference() -> None:
    read = derived = 0
    for name in NAMES:
        expected = json.loads((tool.VECTORS / f"{name}.expected.json").read_text())
        document = parse_document((tool.VECTORS / f"{name}.proof.json").read_bytes())
        if isinstance(document, ProofDocument):
            read += 1
            assert document.canonical_sha256 == expected["canonical_sha256"], name
            headline = derived_headlines(document).get(LOKI_VERIFIER.name)
            if headline is not None and "LOKI_FV_GATE" not in expected.get("environment", {}):
                derived += 1
                assert headline.value == expected["derived_headline"], name
    assert (read, derived) == (88, 83)


def test_every_rule_is_used_and_said_on_the_page_and_no_other() -> None:
    rules = PAGE.partition("Each difference has a rule")[2].partition(tool.BEGIN)[0]
    said = re.findall(r"^\| `([a-z-]+)` \|", rules, re.MULTILINE)
    used = {rule for row in ROWS.values() for rule in row.split("|")[5].replace(",", " ").split()}
    assert said == [rule.name for rule in tool.RULES]
    assert used == set(said)


def reasons_in_code() -> set[str]:
    """What modules that judge a document by itself call `failed` and `unchecked` with."""
    found = {f"signature-{status.value}" for status in SignatureStatus if status is not SignatureStatus.VALID}
    for module in BY_THE_DOCUMENT_ALONE:
        tree = ast.parse((tool.ROOT / "fable_exec/proofbind" / f"{module}.py").read_text())
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if getattr(call.func, "id", "") in ("failed", "unchecked") and isinstance(call.args[1], ast.Constant):
                axis, why = call.args[0], str(call.args[1].value)
                axes = [axis.attr.lower()] if isinstance(axis, ast.Attribute) else OF_FACTS
                found |= {f"{each}-{why}" for each in axes}
    return found


def test_the_page_lists_every_reason_and_no_other() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*)\|$", PAGE.partition("## Axes")[2].partition("\n## ")[0], re.MULTILINE)
    assert {axis for axis, _ in rows} == {each.axis.value for each in verify_integrity(b"{}").axes}
    said = {reason for axis, row in rows for reason in re.findall(rf"`({axis}-[a-z-]*[a-z0-9])`", row)}
    assert said == reasons_in_code()


def test_the_page_lists_every_word_of_strict_json_and_no_other() -> None:
    source = (tool.ROOT / "fable_exec/strictjson.py").read_text()
    table = PAGE.partition("## Strict JSON")[2].partition("\n## ")[0].partition("|---|")[2]
    words = {word for row in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE) for word in re.findall(r"`([a-z0-9-]+)`", row)}
    assert words == set(re.findall(r'JsonFault\("([a-z0-9-]+)"', source))

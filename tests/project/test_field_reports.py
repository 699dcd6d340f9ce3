"""The page of field reports is complete, and every test it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs" / "explanation" / "field-reports.md").read_text()
IDS = (TESTS / "data" / "report_ids.txt").read_text().split()
ROWS = dict(re.findall(r"^\| ([A-Z]\d+) \| (.*) \|$", PAGE, re.MULTILINE))
NAMED = sorted(set(re.findall(r"`([a-z_/]+\.py)::(test_\w+)`", PAGE)))


def test_every_report_has_its_one_line() -> None:
    assert re.findall(r"^\| ([A-Z]\d+) \|", PAGE, re.MULTILINE) == IDS
    assert len(IDS) == len(set(IDS)) == 284


def test_every_line_names_a_test_or_says_why_not() -> None:
    assert [name for name, cells in ROWS.items() if "::test_" not in cells and "| not here: " not in cells] == []


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_every_named_test_exists(file: str) -> None:
    tree = ast.parse((TESTS / file).read_text())
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert {name for path, name in NAMED if path == file} - functions == set()

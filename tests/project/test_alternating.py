"""What one of the two runs of `make test` leaves to the other is there, and asks nothing of who runs it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests import alternating

TESTS = Path(__file__).resolve().parents[1]
OF_A_USER = re.compile(r"\bgete?[ug]id\b")


def texts_of(place: str) -> dict[str, str]:
    """The files of a place, or that one test."""
    path, _, test = place.partition("::")
    root = TESTS / path
    texts = {str(file): file.read_text() for file in ([root] if root.is_file() else sorted(root.rglob("test_*.py")))}
    if not test:
        return texts
    (text,) = texts.values()
    (function,) = [each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef) and each.name == test]
    return {place: ast.get_source_segment(text, function) or ""}


@pytest.mark.parametrize(
    "place", sorted({*alternating.WAYS, *alternating.SAME_FOR_EVERY_USER, *alternating.EVERY_WAY_BY_THE_SECOND_RUN})
)
def test_every_place_that_is_named_is_there(place: str) -> None:
    assert [text for text in texts_of(place).values() if text]


@pytest.mark.parametrize("place", sorted(alternating.SAME_FOR_EVERY_USER))
def test_what_is_the_same_for_every_user_asks_for_none(place: str) -> None:
    assert {name: found for name, text in texts_of(place).items() if (found := OF_A_USER.findall(text))} == {}

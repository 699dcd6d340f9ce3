"""What one of the two runs of `make test` leaves to the other is there, and asks nothing of who runs it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import alternating

TESTS = Path(__file__).resolve().parents[1]
OF_A_USER = re.compile(r"\bgete?[ug]id\b")


@pytest.mark.parametrize("place", sorted({*alternating.WAYS, *alternating.SAME_FOR_EVERY_USER}))
def test_every_place_that_is_named_is_there(place: str) -> None:
    assert (TESTS / place).exists()


@pytest.mark.parametrize("place", sorted(alternating.SAME_FOR_EVERY_USER))
def test_what_is_the_same_for_every_user_asks_for_none(place: str) -> None:
    root = TESTS / place
    files = [root] if root.is_file() else sorted(root.rglob("test_*.py"))
    assert files
    assert {str(file): found for file in files if (found := OF_A_USER.findall(file.read_text()))} == {}

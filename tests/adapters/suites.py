"""The conformance suites that frameworks ship, as classes to subclass; where a framework is missing, a skip that is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests import abilities


def suite(ability: str, load: Callable[[], Any]) -> Any:
    """What `load` gives where `ability` is there, else a class whose one test is skipped with the reason."""
    if not abilities.missing(ability):
        return load()

    class Missing:
        @pytest.mark.requires_ability(ability)
        def test_the_suite_of_the_framework(self) -> None:
            raise AssertionError("this is skipped")

    return Missing

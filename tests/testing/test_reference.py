"""The pages about testing name everything that there is, and count right."""

from __future__ import annotations

import re
from pathlib import Path

from fable_exec import testing
from fable_exec.testing import BrokerConformance, strategies
from tests.testing.broken import BROKEN
from tests.testing.test_supervisor_conformance import BROKEN as BROKEN_SUPERVISORS

DOCS = Path(__file__).resolve().parents[2] / "docs"
REFERENCE = (DOCS / "reference/testing.md").read_text()


def test_the_reference_names_every_public_name() -> None:
    named = set(re.findall(r"`(?:\w+\.)*(\w+)", REFERENCE))
    assert set(testing.__all__) <= named
    assert set(strategies.__all__) <= named


def test_the_numbers_are_right() -> None:
    assert f"{len(BROKEN)} brokers and {len(BROKEN_SUPERVISORS)} supervisors that are broken on purpose" in REFERENCE
    assert f"`examples`, `command_examples` | {BrokerConformance.examples} and {BrokerConformance.command_examples}:" in REFERENCE
    checks = [name for name in dir(BrokerConformance) if name.startswith("test_")]
    assert f"That is {len(checks)} checks" in (DOCS / "how-to/test-your-plugin.md").read_text()

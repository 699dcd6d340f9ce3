"""The JSON Schema is generated from the classes, committed, valid, and never narrower than the rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from fable_exec.policy import BrokerPolicy, json_schema, json_schema_text, to_mapping
from fable_exec.policy.fields import meaning_of, rule_of
from fable_exec.policy.rules import Nested
from fable_exec.testing.strategies import policies
from tests.fuzzing import A_TENTH
from tests.policy.test_narrowing import kinds_in

COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "reference" / "policy.schema.json"
VALIDATOR = Draft202012Validator(json_schema())


def test_the_committed_schema_is_the_generated_one() -> None:
    """Regenerate it with `python -c "import fable_exec.policy as p; print(p.json_schema_text(), end='')"`."""
    assert COMMITTED.read_text() == json_schema_text()


def test_the_schema_is_valid() -> None:
    Draft202012Validator.check_schema(json_schema())


@pytest.mark.fuzz
@A_TENTH
@given(policies())
def test_what_the_rules_accept_the_schema_accepts(policy: BrokerPolicy) -> None:
    assert list(VALIDATOR.iter_errors(to_mapping(policy))) == []


def test_defaults_nulls_and_the_schema_key_are_accepted() -> None:
    names = json_schema()["properties"].keys() - {"workspace", "$schema"}
    for document in (
        {"workspace": "/usr/share"},
        {"workspace": "/usr/share", **dict.fromkeys(names)},
        {"workspace": "/", "$schema": "x"},
    ):
        assert list(VALIDATOR.iter_errors(document)) == []


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"workspace": None},
        {"workspace": ""},
        {"workspace": "/usr/share", "x": 1},
        {"workspace": "/usr/share", "limits": {"x": 1}},
        {"workspace": "/usr/share", "limits": []},
        {"workspace": "/usr/share", "limits": {"timeout_seconds": 0}},
        {"workspace": "/usr/share", "limits": {"timeout_seconds": 3601}},
        {"workspace": "/usr/share", "limits": {"max_frame_bytes": 1}},
        {"workspace": "/usr/share", "max_output_bytes": True},
        {"workspace": "/usr/share", "max_output_bytes": "1"},
        {"workspace": "/usr/share", "max_output_bytes": 1.5},
        {"workspace": "/usr/share", "allowed_executables": "python"},
        {"workspace": "/usr/share", "allowed_executables": [""]},
        {"workspace": "/usr/share", "write_token_digest": "abc"},
        {"workspace": "/usr/share", "launch": "fast"},
        {"workspace": "/usr/share", "pin_executable_digest": "false"},
        {"workspace": "/usr/share", "environment": {"set": {"A": 1}}},
        {"workspace": "/usr/share", "environment": {"set": {"PATH": "x"}}},
        {"workspace": "/usr/share", "environment": {"inherit": ["A=B"]}},
        {"workspace": "/usr/share", "environment": {"path": []}},
        {"workspace": "/usr/share", "paths": {"protected": ["a/b"]}},
    ],
)
def test_the_schema_refuses_what_the_rules_refuse(document: dict[str, Any]) -> None:
    assert list(VALIDATOR.iter_errors(document)) != []
    with pytest.raises(ValueError, match="invalid policy"):
        BrokerPolicy.from_mapping(document)


def test_every_field_has_a_rule_and_one_sentence() -> None:
    for kind in kinds_in(BrokerPolicy):
        for field in attrs.fields(kind):
            assert meaning_of(field).endswith(".")
            assert meaning_of(field)[0].isupper() or field.name in STARTING_WITH_A_WORD_OF_THE_FIELD


def test_the_reference_names_every_field() -> None:
    text = (COMMITTED.parent / "policy.md").read_text()
    names = set(paths_in(BrokerPolicy))
    assert sorted(name for name in names if f"`{name}`" not in text) == []
    documented = set(re.findall(r"^\| `([a-z_.]+)` \|", text.partition("## Reading documents")[0], re.MULTILINE))
    assert documented == names


def paths_in(kind: type[attrs.AttrsInstance], prefix: str = "") -> Iterator[str]:
    """Every field as documents name it, such as limits.timeout_seconds."""
    for field in attrs.fields(kind):
        rule = rule_of(field)
        if isinstance(rule, Nested):
            yield from paths_in(rule.kind, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name


STARTING_WITH_A_WORD_OF_THE_FIELD = {"file_trust", "network"}

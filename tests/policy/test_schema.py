"""The JSON Schema is generated from the classes, committed, valid, and never narrower than the rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from fable_exec.policy import BrokerPolicy, json_schema, json_schema_text, to_mapping
from fable_exec.policy.fields import meaning_of, rule_of
from fable_exec.policy.rules import Nested
from tests.policy.policies import POLICIES

COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "reference" / "policy.schema.json"
VALIDATOR = Draft202012Validator(json_schema())


def test_the_committed_schema_is_the_generated_one() -> None:
    """Regenerate it with `python -c "import fable_exec.policy as p; print(p.json_schema_text(), end='')"`."""
    assert COMMITTED.read_text() == json_schema_text()


def test_the_schema_is_valid() -> None:
    Draft202012Validator.check_schema(json_schema())


@pytest.mark.fuzz
@given(POLICIES)
def test_what_the_rules_accept_the_schema_accepts(policy: BrokerPolicy) -> None:
    assert list(VALIDATOR.iter_errors(to_mapping(policy))) == []


def test_defaults_nulls_and_the_schema_key_are_accepted() -> None:
    names = json_schema()["properties"].keys() - {"workspace", "$schema"}
    for document in ({"workspace": "/usr"}, {"workspace": "/usr", **dict.fromkeys(names)}, {"workspace": "/", "$schema": "x"}):
        assert list(VALIDATOR.iter_errors(document)) == []


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"workspace": None},
        {"workspace": ""},
        {"workspace": "/usr", "x": 1},
        {"workspace": "/usr", "limits": {"x": 1}},
        {"workspace": "/usr", "limits": []},
        {"workspace": "/usr", "limits": {"timeout_seconds": 0}},
        {"workspace": "/usr", "limits": {"timeout_seconds": 3601}},
        {"workspace": "/usr", "limits": {"max_frame_bytes": 1}},
        {"workspace": "/usr", "max_output_bytes": True},
        {"workspace": "/usr", "max_output_bytes": "1"},
        {"workspace": "/usr", "max_output_bytes": 1.5},
        {"workspace": "/usr", "allowed_executables": "python"},
        {"workspace": "/usr", "allowed_executables": [""]},
        {"workspace": "/usr", "write_token_digest": "abc"},
        {"workspace": "/usr", "launch": "fast"},
        {"workspace": "/usr", "pin_executable_digest": "false"},
        {"workspace": "/usr", "environment": {"set": {"A": 1}}},
        {"workspace": "/usr", "environment": {"set": {"PATH": "x"}}},
        {"workspace": "/usr", "environment": {"inherit": ["A=B"]}},
        {"workspace": "/usr", "environment": {"path": []}},
        {"workspace": "/usr", "paths": {"protected": ["a/b"]}},
    ],
)
def test_the_schema_refuses_what_the_rules_refuse(document: dict[str, Any]) -> None:
    assert list(VALIDATOR.iter_errors(document)) != []
    with pytest.raises(ValueError, match="invalid policy"):
        BrokerPolicy.from_mapping(document)


def test_every_field_has_a_rule_and_one_sentence() -> None:
    kinds = [BrokerPolicy, *(rule.kind for field in attrs.fields(BrokerPolicy) if isinstance(rule := rule_of(field), Nested))]
    for kind in kinds:
        for field in attrs.fields(kind):
            assert meaning_of(field).endswith(".")
            assert meaning_of(field)[0].isupper() or field.name == "file_trust"


def test_the_reference_names_every_field() -> None:
    text = (COMMITTED.parent / "policy.md").read_text()
    tables: dict[str, dict[str, Any]] = {"": json_schema()} | {
        f"{name}.": json_schema()["$defs"][kind] for name, kind in NESTED.items()
    }
    names = [
        f"{prefix}{name}" for prefix, table in tables.items() for name in table["properties"] if name not in {*NESTED, "$schema"}
    ]
    assert [name for name in names if f"`{name}`" not in text] == []
    assert json.loads(COMMITTED.read_text())["$defs"].keys() == set(NESTED.values())


NESTED = {"environment": "EnvironmentPolicy", "limits": "Limits", "paths": "PathRules", "audit": "AuditRules"}

"""JSON Schema 2020-12 of policy documents, generated from the classes.

For editors and other languages; the library itself judges with the rules. The schema is never narrower than the rules, and wider
where JSON Schema cannot say it: that a directory exists, that 3.0 is no integer, that one field bounds another.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from fable_exec.policy.fields import meaning_of, rule_of
from fable_exec.policy.rules import Nested
from fable_exec.policy.values import BrokerPolicy

__all__ = ["json_schema", "json_schema_text"]


def json_schema() -> dict[str, Any]:
    """The schema of a policy document."""
    top = _table(BrokerPolicy)
    top["properties"] = {"$schema": {"type": "string", "description": "For editors; ignored."}, **top["properties"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:fable-exec:policy",
        "title": "fable_exec broker policy",
        **top,
        "$defs": {kind.__name__: _table(kind) for kind in _nested_in(BrokerPolicy)},
    }


def json_schema_text() -> str:
    """The schema as the committed file holds it."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _nested_in(kind: type[attrs.AttrsInstance]) -> Iterator[type[attrs.AttrsInstance]]:
    """The classes of tables in a table, at any depth."""
    for field in attrs.fields(kind):
        rule = rule_of(field)
        if isinstance(rule, Nested):
            yield rule.kind
            yield from _nested_in(rule.kind)


def _table(kind: type[attrs.AttrsInstance]) -> dict[str, Any]:
    fields = attrs.fields(kind)
    return {
        "type": "object",
        "description": (kind.__doc__ or "").split("\n", 1)[0],
        "properties": {field.name: _property(field) for field in fields},
        "required": [field.name for field in fields if field.default is attrs.NOTHING],
        "additionalProperties": False,
    }


def _property(field: attrs.Attribute[Any]) -> dict[str, Any]:
    described = rule_of(field).schema()
    if field.default is attrs.NOTHING:
        return {"description": meaning_of(field), **described}
    # null stands for the default everywhere
    return {"description": meaning_of(field), "anyOf": [described, {"type": "null"}], **_default(field)}


def _default(field: attrs.Attribute[Any]) -> dict[str, Any]:
    if isinstance(rule_of(field), Nested):
        return {}  # the defaults stand with the fields of the class
    value: Any = field.default
    if isinstance(value, Mapping):
        return {"default": dict(value)}
    return {"default": list(value) if isinstance(value, tuple) else value}

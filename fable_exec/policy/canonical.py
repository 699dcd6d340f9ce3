"""Policies as text: the canonical JSON form that the digest is taken of, and TOML for people.

The canonical form holds every field, defaults too, so that the digest changes when what is enforced changes. Its JSON is that of
RFC 8785 (sorted members, no spaces, UTF-8, whole seconds without a fraction) for every value a policy can hold above 0.0001.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import attrs

from fable_exec.policy.values import BrokerPolicy

__all__ = ["digest_of", "dump_json", "dump_toml", "to_mapping"]


def to_mapping(policy: BrokerPolicy) -> dict[str, Any]:
    """The policy as JSON types, every field included; `BrokerPolicy.from_mapping` takes it back."""
    return _table(policy)


def dump_json(policy: BrokerPolicy) -> str:
    """The canonical JSON form, one line without a newline."""
    return json.dumps(to_mapping(policy), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest_of(policy: BrokerPolicy) -> str:
    """SHA-256 of the canonical form, as 64 hexadecimal digits."""
    return hashlib.sha256(dump_json(policy).encode()).hexdigest()


def dump_toml(policy: BrokerPolicy) -> str:
    """The policy as a TOML document; fields that are None are left out, since TOML has no null."""
    return _toml_table(to_mapping(policy), ())


def _table(value: attrs.AttrsInstance) -> dict[str, Any]:
    return {field.name: _plain(getattr(value, field.name)) for field in attrs.fields(type(value))}


def _plain(value: Any) -> Any:
    if attrs.has(type(value)):
        return _table(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, PurePath):
        return str(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _toml_table(table: Mapping[str, Any], path: tuple[str, ...]) -> str:
    """One table and the tables in it; a table's own values must stand before its first sub-table."""
    values = {name: value for name, value in table.items() if value is not None and not isinstance(value, dict)}
    lines = [f"{_toml_key(name)} = {_toml_value(value)}\n" for name, value in values.items()]
    header = f"\n[{'.'.join(_toml_key(part) for part in path)}]\n" if path else ""
    nested = [_toml_table(value, (*path, name)) for name, value in table.items() if isinstance(value, dict)]
    return header + "".join(lines) + "".join(nested)


def _toml_key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _toml_value(name)


def _toml_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_toml_value(item) for item in value)}]"
    # JSON's escapes are all TOML's too; only DEL stays bare in JSON and is forbidden in TOML.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")

"""Documents to policies: parsed mappings, TOML and JSON files, read strictly and judged as a whole.

The classes judge the values; this module only knows tables: nothing is coerced, keys that no class has are faults, and a null
means the default. `$schema` is allowed at the top, for editors. A relative workspace counts from the current directory.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs

from fable_exec.errors import PolicyError
from fable_exec.policy.fields import check_fields, rule_of
from fable_exec.policy.hints import hint_for
from fable_exec.policy.rules import Faults, Nested, Rule, shown
from fable_exec.policy.values import BrokerPolicy

__all__ = [
    "MAX_DOCUMENT_BYTES",
    "load_json",
    "load_policy",
    "load_toml",
    "parse_json",
    "parse_toml",
    "policy_from_mapping",
    "read_document",
    "read_file",
    "read_json",
    "read_text",
]

MAX_DOCUMENT_BYTES = 4 * 1024 * 1024
"""Longest policy, and longest file of argument rules, that is read. A policy made in code may hold such rules as text."""
_MOST_HINTS = 20
"""Looking for one takes a millisecond; a document may have any number of wrong keys."""


def policy_from_mapping(document: Mapping[str, Any], given_by: Mapping[str, str] = MappingProxyType({})) -> BrokerPolicy:
    """The policy of a parsed document, see `BrokerPolicy.from_mapping`. Raises PolicyError with every fault."""
    if isinstance(document, Mapping) and isinstance(document.get("$schema"), str):
        document = {key: value for key, value in document.items() if key != "$schema"}
    try:
        policy: BrokerPolicy = _table(BrokerPolicy, document)
    except PolicyError as error:
        raise error.told_by(given_by) from None
    return policy


def load_policy(path: str | Path) -> BrokerPolicy:
    """The policy of a file whose name ends with `.toml` or `.json`.

    Raises:
        PolicyError: the file cannot be read, is of neither kind, or its policy has faults; all are listed.
    """
    return policy_from_mapping(read_document(path))


def read_document(path: str | Path) -> dict[str, Any]:
    """The members of a policy file, not yet judged as a policy, for whoever completes them from elsewhere. Raises PolicyError."""
    parse = {".toml": _toml, ".json": _json}.get(Path(path).suffix.lower())
    text = read_file(path)
    if parse is None:
        raise PolicyError.of([("", f"a policy file ends with .toml or .json, not {shown(Path(path).name)}")])
    return _members_of(parse(text))


def read_json(text: str) -> dict[str, Any]:
    """The same of a JSON document. Raises PolicyError."""
    return _members_of(_json(text))


def load_toml(path: str | Path) -> BrokerPolicy:
    """The policy of a TOML file. Raises PolicyError."""
    return parse_toml(read_file(path))


def load_json(path: str | Path) -> BrokerPolicy:
    """The policy of a JSON file. Raises PolicyError."""
    return parse_json(read_file(path))


def parse_toml(text: str) -> BrokerPolicy:
    """The policy of a TOML document. Raises PolicyError."""
    return policy_from_mapping(_toml(text))


def parse_json(text: str) -> BrokerPolicy:
    """The policy of a JSON document: one object, no member twice, no NaN. Raises PolicyError."""
    return policy_from_mapping(_json(text))


def _toml(text: str) -> Any:
    import tomllib  # a policy built in code does not pay for it

    return _parsed("TOML", tomllib.loads, text)


def _json(text: str) -> Any:
    return _parsed("JSON", _strict_json, text)


def _members_of(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise PolicyError.of([("", f"must be a table, not {type(document).__name__}")])
    return document


def read_file(path: str | Path) -> str:
    """The text of a file that is a policy, or that one names. Raises PolicyError."""
    try:
        file = Path(path)
        if not file.is_file():  # a FIFO would block, a device might not end
            raise PolicyError.of([("", f"{_what_instead_of_a_file(file)}: {shown(file)}")])
        with file.open("rb") as stream:
            return read_text(stream.read, f": {shown(file)}")
    except OSError as error:
        raise PolicyError.of([("", f"cannot be read: {error.strerror}: {shown(Path(path))}")]) from error


def read_text(read: Callable[[int], bytes], where: str = "") -> str:
    """The text of such a document, from whatever it comes by.

    Args:
        read: gives as many bytes as it is asked for, or fewer, and none at the end only.
        where: what words about a fault end with.

    Raises:
        PolicyError: it is longer than MAX_DOCUMENT_BYTES, or not UTF-8. And whatever `read` raises.
    """
    data = b""
    while len(data) <= MAX_DOCUMENT_BYTES and (piece := read(MAX_DOCUMENT_BYTES + 1 - len(data))):
        data += piece
    if len(data) > MAX_DOCUMENT_BYTES:
        raise PolicyError.of([("", f"the document is longer than {MAX_DOCUMENT_BYTES} bytes{where}")])
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise PolicyError.of([("", f"not UTF-8 at byte {error.start}{where}")]) from error


def _what_instead_of_a_file(path: Path) -> str:
    if path.is_dir():
        return "a directory, not a file"
    return "not a regular file" if path.exists() else "no such file"


def _parsed(language: str, parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else f"{error!s:.300}"
        raise PolicyError.of([("", f"not a {language} document: {reason}")]) from error


def _strict_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_members, parse_constant=_refuse_constant)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"member {shown(twice)} stands twice")
    return members


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _table(kind: type[attrs.AttrsInstance], raw: Any) -> Any:
    """A value of `kind` from a table, nested ones too. Raises PolicyError with every fault, each under its path."""
    if not isinstance(raw, Mapping):
        raise PolicyError.of([("", f"must be a table, not {type(raw).__name__}")])
    fields = {field.name: field for field in attrs.fields(kind)}
    faults = [(name, "is required") for name, field in fields.items() if _is_missing(field, raw)]
    given: dict[str, Any] = {}
    for name, field in fields.items():
        if raw.get(name) is not None:
            _take(rule_of(field), name, raw[name], given, faults)
    faults += _unknown(kind, [key for key in raw if key not in fields])
    if faults:
        check_fields(kind, given, faults)
        raise PolicyError.of(sorted(faults, key=_place_in(list(fields))))
    return kind(**given)


def _unknown(kind: type[attrs.AttrsInstance], keys: list[Any]) -> Faults:
    hints = [hint_for(key, kind, BrokerPolicy) for key in keys[:_MOST_HINTS]]
    told = itertools.zip_longest(keys, hints, fillvalue="")
    return [(shown(key).strip("'"), f"unknown key; {hint}" if hint else "unknown key") for key, hint in told]


def _place_in(names: list[str]) -> Callable[[tuple[str, str]], int]:
    """Sort key: the order of the class, unknown keys last."""
    places = {name: place for place, name in enumerate(names)}
    return lambda fault: places.get(fault[0].partition(".")[0].partition("[")[0], len(places))


def _is_missing(field: attrs.Attribute[Any], raw: Mapping[str, Any]) -> bool:
    return field.default is attrs.NOTHING and raw.get(field.name) is None


def _take(rule: Rule, name: str, raw: Any, given: dict[str, Any], faults: Faults) -> None:
    """Put a member into `given` as its class wants it; only tables need reading, the class judges the rest."""
    if not isinstance(rule, Nested):
        given[name] = raw
        return
    try:
        given[name] = _table(rule.kind, raw)
    except PolicyError as error:
        faults += [(f"{name}.{path}" if path else name, text) for path, text in error.faults]

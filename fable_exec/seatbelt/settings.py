"""A boundary from the environment or a file. The class judges the values; here texts become lists, and faults get their names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from fable_exec.errors import PolicyError
from fable_exec.policy.document import read_document
from fable_exec.policy.rules import Faults, shown
from fable_exec.seatbelt.boundary import WHAT, HostBoundary

__all__ = ["PREFIX", "boundary_from_environment", "boundary_from_file"]

PREFIX = "FABLE_EXEC_HOST_"
_LISTS = ("workspace_roots", "runtime_read_paths", "runtime_write_paths", "child_path")
_PORTS = "reserved_ports"
_MOST_DIGITS = 5


def boundary_from_environment(environment: Mapping[str, str]) -> HostBoundary:
    """See `HostBoundary.from_env`."""
    names = {field.name: PREFIX + field.name.upper() for field in attrs.fields(HostBoundary)}
    given = {field: environment[name] for field, name in names.items() if name in environment}
    try:
        return _boundary(given)
    except PolicyError as error:
        raise PolicyError.of([(_renamed(place, names), text) for place, text in error.faults], WHAT) from None


def boundary_from_file(path: str | Path) -> HostBoundary:
    """See `HostBoundary.from_toml`."""
    if Path(path).suffix.lower() != ".toml":
        raise PolicyError.of([("", f"a boundary file ends with .toml, not {shown(Path(path).name)}")], WHAT)
    try:
        return _boundary(read_document(path))
    except PolicyError as error:
        raise PolicyError.of(list(error.faults), WHAT) from None


def _boundary(given: Mapping[str, Any]) -> HostBoundary:
    """The boundary of these members; a text where a list belongs is one as the environment has it."""
    fields = {field.name for field in attrs.fields(HostBoundary)}
    faults: Faults = [(shown(name).strip("'"), "unknown setting") for name in given if name not in fields]
    faults += [(name, "is required") for name in _REQUIRED if name not in given]
    values = {name: _listed(name, value, faults) for name, value in given.items() if name in fields}
    named = {name for name, _ in faults}
    try:
        boundary = HostBoundary(**{**dict.fromkeys(_REQUIRED), **values})
    except PolicyError as error:
        faults += [fault for fault in error.faults if fault[0].partition("[")[0] not in named]
    if faults:
        raise PolicyError.of(faults, WHAT)
    return boundary


_REQUIRED = ("workspace_roots", "protected_root")


def _listed(name: str, value: Any, faults: Faults) -> Any:
    if not isinstance(value, str):
        return value
    if name in _LISTS:
        items = value.split(":")
        faults += [(name, "has an empty element; leave it unset for none")] if "" in items else []
        return items
    return _numbers(value, faults) if name == _PORTS else value


def _numbers(text: str, faults: Faults) -> list[int]:
    items = text.split(",")
    wrong = [item for item in items if not (item.isascii() and item.isdigit() and len(item) <= _MOST_DIGITS)]
    for item in wrong:
        what = "has an empty element; leave it unset for none" if not item else f"must be ports in ASCII digits: {shown(item)}"
        faults.append((_PORTS, what))
    return [] if wrong else [int(item) for item in items]


def _renamed(place: str, names: Mapping[str, str]) -> str:
    field, bracket, index = place.partition("[")
    return names.get(field, place) + bracket + index if field in names else place

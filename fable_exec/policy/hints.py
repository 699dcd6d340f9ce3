"""What was probably meant by a key that no table of a policy has, or that another one has. Pure; it refuses nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import attrs

from fable_exec.policy.fields import rule_of
from fable_exec.policy.rules import Nested

__all__ = ["hint_for"]

_LONGEST_KEY = 64
_SHORTEST_BEGINNING = 3
_TOP = "the top level, in TOML above the first [table]"

_Kind = type[attrs.AttrsInstance]


def hint_for(key: object, kind: _Kind, top: _Kind) -> str:
    """In a few words, where a `key` that the table `kind` lacks belongs in a document `top`, or what it may mean; else ""."""
    if not isinstance(key, str) or len(key) > _LONGEST_KEY:
        return ""
    tables = dict(_tables(top, ()))
    wanted = _spelled_as_here(key)
    if wanted != key and wanted in _names(kind):
        return f"did you mean {wanted}?"
    if places := [_place(path) for path, table in tables.items() if wanted in _names(table)]:
        return f"{wanted} belongs to {' or '.join(places)}"
    if near := _nearest(wanted, _names(kind)):
        return f"did you mean {near}?"
    elsewhere = {name: path for path, table in tables.items() for name in _names(table) if table is not kind}
    near = _nearest(wanted, elsewhere)
    return f"did you mean {near}? It belongs to {_place(elsewhere[near])}" if near else ""


def _tables(kind: _Kind, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], _Kind]]:
    """Every table of a document with its path, those in tables too."""
    yield path, kind
    for field in attrs.fields(kind):
        rule = rule_of(field)
        if isinstance(rule, Nested):
            yield from _tables(rule.kind, (*path, field.name))


def _names(kind: _Kind) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(kind))


def _place(path: tuple[str, ...]) -> str:
    return f"[{'.'.join(path)}]" if path else _TOP


def _spelled_as_here(key: str) -> str:
    """`maxOutputBytes` and `max-output-bytes` as `max_output_bytes`."""
    return re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", key).replace("-", "_").lower()


def _nearest(key: str, names: Iterable[str]) -> str:
    """The one name that begins or ends with `key`, else the one that is spelled most like it, else ""."""
    import difflib  # a document without faults does not pay for it

    names = tuple(names)
    parted = [name for name in names if name.startswith(key) or name.endswith(f"_{key}")]
    if len(key) >= _SHORTEST_BEGINNING and len(parted) == 1:
        return parted[0]
    return next(iter(difflib.get_close_matches(key, names, n=1)), "")

"""Rules for single fields of a policy: each one checks a value, brings it to its one form, and describes itself as JSON Schema.

A rule never coerces: a value of another type is a fault. It reports every fault it sees and goes on, so that one error can list
them all. Which field has which rule is written in `values`; nothing here knows a field.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, Protocol

import attrs

from fable_exec.policy.forms import encodable, expanded
from fable_exec.policy.names import is_environment_name

__all__ = [
    "MAX_INTEGER",
    "AbsoluteFile",
    "Faults",
    "Flag",
    "FrozenMapping",
    "Items",
    "Nested",
    "OneOf",
    "OrNone",
    "Rule",
    "Seconds",
    "Share",
    "Text",
    "Variables",
    "Whole",
    "WorkspaceDirectory",
    "shown",
]

Faults = list[tuple[str, str]]
"""(path in the document, what is wrong), in the order they were met."""

MAX_INTEGER = 2**53 - 1
"""Largest integer that every JSON reader keeps exactly (RFC 8259, section 6)."""
_LEAST_SHARE = 0.01


class Rule(Protocol):
    """What a field of a policy may hold."""

    def check(self, value: Any, path: str, faults: Faults) -> Any:
        """The value in its one form; what is wrong with it goes to `faults` under `path`."""

    def schema(self) -> dict[str, Any]:
        """The rule as JSON Schema 2020-12, never narrower than `check`."""


class FrozenMapping(Mapping[str, str]):
    """A mapping of strings that cannot change, compares like a dict, and can be hashed and pickled."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, str] | None = None) -> None:
        self._items = dict(sorted((items or {}).items()))

    def __getitem__(self, key: str) -> str:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(tuple(self._items.items()))

    def __repr__(self) -> str:
        # Values of environment variables may be secrets; a policy is printed in logs and tracebacks.
        return f"FrozenMapping({', '.join(self._items)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenMapping, (self._items,))


@attrs.frozen
class Flag:
    """True or false and nothing that merely looks like it."""

    def check(self, value: Any, path: str, faults: Faults) -> Any:
        if type(value) is not bool:
            faults.append((path, f"must be true or false, not {shown(value)}"))
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@attrs.frozen
class Whole:
    """An integer from `low` to `high`; 3.0 and true are none."""

    low: int
    high: int = MAX_INTEGER

    def check(self, value: Any, path: str, faults: Faults) -> Any:
        if type(value) is not int:
            faults.append((path, f"must be an integer, not {shown(value)}"))
        elif not self.low <= value <= self.high:
            faults.append((path, f"must be from {self.low} to {self.high}, not {shown(value)}"))
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@attrs.frozen
class Seconds:
    """A finite number of seconds above 0 and up to `high`; an integer is taken, kept as a float."""

    high: float

    def check(self, value: Any, path: str, faults: Faults) -> Any:
        if type(value) not in (int, float):
            faults.append((path, f"must be a number of seconds, not {shown(value)}"))
            return value
        if not (0 < value <= self.high and math.isfinite(value)):
            faults.append((path, f"must be above 0 and at most {self.high:g} seconds, not {shown(value)}"))
            return value
        return float(value)

    def schema(self) -> dict[str, Any]:
        return {"type": "number", "exclusiveMinimum": 0, "maximum": self.high}


@attrs.frozen
class Share:
    """A number from 0.01 to 1."""

    def check(self, value: Any, path: str, faults: Faults) -> Any:
        if type(value) not in (int, float):
            faults.append((path, f"must be a number, not {shown(value)}"))
            return value
        if not _LEAST_SHARE <= value <= 1:
            faults.append((path, f"must be from {_LEAST_SHARE} to 1, not {shown(value)}"))
            return value
        return float(value)

    def schema(self) -> dict[str, Any]:
        return {"type": "number", "minimum": _LEAST_SHARE, "maximum": 1}


@attrs.frozen
class OneOf:
    """One word of a closed set."""

    words: tuple[str, ...]

    def check(self, value: Any, path: str, faults: Faults) -> Any:
        if not isinstance(value, str) or value not in self.words:
            faults.append((path, f"must be one of {', '.join(self.words)}, not {shown(value)}"))
            return value
        return str.__str__(value)

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.words)}


@attrs.frozen
class Text:
    """A string that `form` brings to its one form or refuses with ValueError. `secret` values are never shown."""

    form: Callable[[str], str | None]
    described: Mapping[str, Any]
    secret: bool = False

    def check(self, value: Any, path: str, faults: Faults) -> Any:
        if not isinstance(value, str):
            faults.append((path, f"must be a string, not {type(value).__name__}"))
            return value
        text = str.__str__(value)  # a subclass could answer differently each time it is asked
        try:
            return self.form(encodable(text))
        except ValueError as error:
            faults.append((path, str(error) if self.secret else f"{error}: {shown(text)}"))
            return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string", **self.described}


@attrs.frozen
class OrNone:
    """Another rule, or None."""

    rule: Rule

    def check(self, value: Any, path: str, faults: Faults) -> Any:
        return None if value is None else self.rule.check(value, path, faults)

    def schema(self) -> dict[str, Any]:
        return self.rule.schema()


@attrs.frozen
class Items:
    """A list whose items all obey `rule`, kept as a tuple in its order without repetitions."""

    rule: Rule
    at_least: int = 0

    def check(self, value: Any, path: str, faults: Faults) -> Any:
        if not isinstance(value, (list, tuple)):
            faults.append((path, f"must be a list, not {type(value).__name__}"))
            return value
        if len(value) < self.at_least:
            faults.append((path, f"must have at least {self.at_least} item"))
        before = len(faults)
        checked = [self.rule.check(item, f"{path}[{index}]", faults) for index, item in enumerate(value)]
        return tuple(dict.fromkeys(checked)) if len(faults) == before else value

    def schema(self) -> dict[str, Any]:
        described: dict[str, Any] = {"type": "array", "items": self.rule.schema()}
        return described | ({"minItems": self.at_least} if self.at_least else {})


@attrs.frozen
class Variables:
    """Environment variables with their values; each name stands in full, so that injection names are named one by one."""

    def check(self, value: Any, path: str, faults: Faults) -> Any:
        if not isinstance(value, Mapping):
            faults.append((path, f"must be a table of strings, not {type(value).__name__}"))
            return value
        before, taken = len(faults), dict(value)  # read once: a mapping of the caller may change under us
        for name, content in taken.items():
            self._check_variable(name, content, path, faults)
        if len(faults) > before:
            return value
        return FrozenMapping({str.__str__(name): str.__str__(content) for name, content in taken.items()})

    def _check_variable(self, name: Any, content: Any, path: str, faults: Faults) -> None:
        if not isinstance(name, str) or not is_environment_name(name):
            faults.append((path, f"not a name for an environment variable: {shown(name)}"))
        elif name.upper() == "PATH":
            faults.append((f"{path}.{name}", "is set through environment.path"))
        elif not isinstance(content, str):
            faults.append((f"{path}.{name}", f"must be a string, not {type(content).__name__}"))
        else:
            try:
                encodable(content)
            except ValueError as error:
                faults.append((f"{path}.{name}", str(error)))  # the value stays out of the message: it may be a secret

    def schema(self) -> dict[str, Any]:
        names = {"pattern": "^[A-Za-z_][A-Za-z0-9_.()-]*$", "not": {"pattern": "^[Pp][Aa][Tt][Hh]$"}}
        return {"type": "object", "propertyNames": names, "additionalProperties": {"type": "string"}}


@attrs.frozen
class Nested:
    """A value of one class of policies, which checks itself."""

    kind: type[attrs.AttrsInstance]

    def check(self, value: Any, path: str, faults: Faults) -> Any:
        if type(value) is not self.kind:
            faults.append((path, f"must be {self.kind.__name__}, not {type(value).__name__}"))
        return value

    def schema(self) -> dict[str, Any]:
        return {"$ref": f"#/$defs/{self.kind.__name__}"}


@attrs.frozen
class WorkspaceDirectory:
    """An existing directory; `~` is expanded and symbolic links are resolved, once, here."""

    def check(self, value: Any, path: str, faults: Faults) -> Any:
        try:
            return self._resolved(_path_text(value))
        except (ValueError, OSError, RuntimeError) as error:  # RuntimeError: no home directory, or a loop of links before 3.13
            faults.append((path, f"{_plain(error)}: {shown(value)}"))
            return value

    def _resolved(self, text: str) -> Path:
        found = Path(text).expanduser().resolve(strict=True)
        if not found.is_dir():
            raise ValueError("must be an existing directory")
        encodable(str(found))
        return found

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1}


@attrs.frozen
class AbsoluteFile:
    """An absolute path of a file that need not exist; `~` is expanded, nothing is resolved."""

    def check(self, value: Any, path: str, faults: Faults) -> Any:
        try:
            text = expanded(_path_text(value))
            if not PurePath(text).is_absolute() or PurePath(text).name in ("", ".."):
                raise ValueError("must be the absolute path of a file")
            return Path(text)
        except ValueError as error:
            faults.append((path, f"{error}: {shown(value)}"))
            return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1}


def shown(value: object) -> str:
    """`value` for a message: escaped and bounded, a path less tightly than a text."""
    if isinstance(value, (list, tuple, Mapping)) or not isinstance(value, (str, int, float, PurePath)):
        return type(value).__name__
    if type(value) is int and abs(value) > MAX_INTEGER:
        return "an integer beyond 2**53"  # repr refuses more than 4300 digits
    text = ascii(str(value)) if isinstance(value, (str, PurePath)) else repr(value)
    longest = 200 if isinstance(value, PurePath) else 80
    return text if len(text) <= longest else text[: longest - 3] + "..."


def _path_text(value: Any) -> str:
    if not isinstance(value, (str, PurePath)):
        raise ValueError(f"must be a path, not {type(value).__name__}")
    if not str(value):
        raise ValueError("must not be empty")  # pathlib would read it as the current directory
    return encodable(str(value))


def _plain(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "must be an existing directory"
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)

"""What every policy class is made with: a field carries its rule and its meaning, and a new value settles all of them at once.

It knows no policy class by name; a class that has rules between its fields gives them as `cross_faults`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs

from fable_exec.errors import PolicyError
from fable_exec.policy.rules import Faults, Rule

__all__ = ["check_fields", "numbers", "ruled", "meaning_of", "rule_of", "settle", "texts", "texts_or_none"]

_RULE = "fable_exec.rule"
_MEANING = "fable_exec.meaning"


def ruled(rule: Rule, meaning: str) -> dict[str, Any]:
    """The metadata of a field: what it may hold, and one sentence about it."""
    return {_RULE: rule, _MEANING: meaning}


def texts(given: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """What is given, as it is: as a converter it tells type checkers that a list may be. The field's rule makes the tuple."""
    return cast("tuple[str, ...]", given)


def texts_or_none(given: list[str] | tuple[str, ...] | None) -> tuple[str, ...] | None:
    """See `texts`."""
    return cast("tuple[str, ...] | None", given)


def numbers(given: list[int] | tuple[int, ...]) -> tuple[int, ...]:
    """See `texts`."""
    return cast("tuple[int, ...]", given)


def rule_of(field: attrs.Attribute[Any]) -> Rule:
    """The rule that stands with a field of a policy class."""
    return cast("Rule", field.metadata[_RULE])


def meaning_of(field: attrs.Attribute[Any]) -> str:
    """One sentence about a field of a policy class, as the schema and the reference print it."""
    return cast("str", field.metadata[_MEANING])


def check_fields(kind: type[attrs.AttrsInstance], given: Mapping[str, Any], faults: Faults) -> dict[str, Any]:
    """The members of `given` in their one form; every fault goes to `faults`, in the order of the class."""
    checked: dict[str, Any] = {}
    for field in attrs.fields(kind):
        if field.name in given:
            before = len(faults)
            value = rule_of(field).check(given[field.name], field.name, faults)
            if len(faults) == before:
                checked[field.name] = value
    between_fields = getattr(kind, "cross_faults", None)
    faults += between_fields(checked) if between_fields is not None else ()
    return checked


def settle(policy: attrs.AttrsInstance) -> None:
    """Bring the fields of a new value to their one form, or raise PolicyError with all faults."""
    kind, faults = type(policy), Faults()
    given = {field.name: getattr(policy, field.name) for field in attrs.fields(kind)}
    for name, value in check_fields(kind, given, faults).items():
        object.__setattr__(policy, name, value)
    if faults:
        raise PolicyError.of(faults)

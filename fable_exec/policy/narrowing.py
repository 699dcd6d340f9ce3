"""Two policies to one that allows nothing which either of them refuses.

Permissions intersect, bounds take the smaller value, switches take the stricter word, conditions add up. Where no value is within
both, merging is refused with PolicyError. The rule of each field is in the table below; a test holds that every field has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from fable_exec.errors import PolicyError
from fable_exec.policy.arguments import ArgumentPolicy
from fable_exec.policy.assurance import AssurancePolicy
from fable_exec.policy.confinement import PROTECTIONS, Confinement, Protections
from fable_exec.policy.names import is_injection_name, pattern_admits
from fable_exec.policy.rules import Faults
from fable_exec.policy.values import AuditRules, BrokerPolicy, EnvironmentPolicy, Limits, PathRules

__all__ = ["NARROWING", "merge"]


def merge(first: BrokerPolicy, second: BrokerPolicy) -> BrokerPolicy:
    """The policy that both policies allow; more than two are merged one after the other.

    Raises:
        PolicyError: a field has no value within both (another workspace, another audit log, one variable with two values ...);
            every such field is listed.
    """
    faults = Faults()
    merged = _merged(first, second, "", faults)
    if faults:
        raise PolicyError.of(faults)
    return BrokerPolicy(**merged)


def _merged(first: attrs.AttrsInstance, second: attrs.AttrsInstance, prefix: str, faults: Faults) -> dict[str, Any]:
    kind = type(first)
    merged: dict[str, Any] = {}
    for field in attrs.fields(kind):
        one, other = getattr(first, field.name), getattr(second, field.name)
        if attrs.has(type(one)):
            nested = _merged(one, other, f"{prefix}{field.name}.", faults)
            merged[field.name] = one if faults else type(one)(**nested)
            continue
        try:
            merged[field.name] = NARROWING[kind][field.name](one, other)
        except ValueError as error:
            faults.append((f"{prefix}{field.name}", str(error)))
    if isinstance(first, Confinement) and isinstance(second, Confinement):
        merged.update(_ports(first, second, merged["network"]))
    if kind is Limits:
        merged["timeout_seconds"] = min(merged["timeout_seconds"], merged["max_timeout_seconds"])
    return merged


def _inner_directory(one: Path, other: Path) -> Path:
    """The workspace that lies in the other one."""
    if one.is_relative_to(other):
        return one
    if other.is_relative_to(one):
        return other
    raise ValueError("neither workspace lies within the other")


def _common(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    """Entries of both lists. `python` and `/usr/bin/python` are two entries: only the broker knows whether they are one file."""
    return tuple(entry for entry in one if entry in other)


def _united(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(one + other))


def _common_names(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Names and patterns that both lists admit; of two patterns the longer one."""
    return _united(_admitted(one, other), _admitted(other, one))


def _admitted(entries: tuple[str, ...], by: tuple[str, ...]) -> tuple[str, ...]:
    patterns = tuple(entry[:-1] for entry in by if entry.endswith("*"))
    return tuple(
        entry for entry in entries if (entry[:-1].startswith(patterns) if entry.endswith("*") else pattern_admits(by, entry))
    )


def _variables(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """Conditions add up: a variable of either is set. An injection name needs both; two values for one name contradict."""
    conflicts = sorted(name for name in one.keys() & other.keys() if one[name] != other[name])
    if conflicts:
        raise ValueError(f"two values for {', '.join(conflicts)}")
    together = {**one, **other}
    return {name: text for name, text in together.items() if not is_injection_name(name) or (name in one and name in other)}


def _search_path(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Directories of both, in the order of the first; none stated leaves the choice to the other."""
    if one is None or other is None:
        return other if one is None else one
    common = _common(one, other)
    if not common:
        raise ValueError("no directory is in both")
    return common


def _smaller_or_none(one: float | None, other: float | None) -> float | None:
    stated = [value for value in (one, other) if value is not None]
    return min(stated, default=None)


def _same_digest(one: str | None, other: str | None) -> str | None:
    """No single token can satisfy two different digests, so writes stay locked."""
    return one if one == other else None


def _one_file(one: Path | None, other: Path | None) -> Path | None:
    if one is not None and other is not None and one != other:
        raise ValueError("two audit logs")
    return one if other is None else other


def _common_or_none(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Entries of both; none stated leaves the choice to the other."""
    if one is None or other is None:
        return other if one is None else one
    return _common(one, other)


def _ports(one: Confinement, other: Confinement, network: str) -> dict[str, tuple[int, ...]]:
    """Ports of both, where both list any: the whole network leaves the list to the other, no network needs none."""
    names = ("connect_ports", "bind_ports")
    if network != "ports":
        return dict.fromkeys(names, ())
    listing = [each for each in (one, other) if each.network == "ports"]
    reserved = {*one.reserved_ports, *other.reserved_ports}
    both = {name: _common(getattr(listing[0], name), getattr(listing[-1], name)) for name in names}
    return {name: tuple(port for port in ports if port not in reserved) for name, ports in both.items()}


def _backslash(one: str, other: str) -> str:
    """Two readings of one path leave only refusing it."""
    return one if one == other else "refuse"


def _either(one: bool, other: bool) -> bool:
    return one or other


def _stricter(*words: str) -> Callable[[str, str], str]:
    """The word that stands first in `words`, strictest first."""
    return lambda one, other: min(one, other, key=words.index)


NARROWING: Mapping[type[attrs.AttrsInstance], Mapping[str, Callable[[Any, Any], Any]]] = {
    BrokerPolicy: {
        "workspace": _inner_directory,
        "allowed_executables": _common,
        "max_output_bytes": min,
        "write_token_digest": _same_digest,
        "on_output_limit": _stricter("kill", "truncate"),
        "locked_commands": _stricter("deny", "readonly"),
        "pin_executable_digest": _either,
        # slots and namespace refuse to start where they cannot be had; auto may fall back to plain.
        "launch": _stricter("namespace", "slots", "auto", "plain"),
    },
    EnvironmentPolicy: {
        "set": _variables,
        "inherit": _common_names,
        "request_names": _common_names,
        "path": _search_path,
    },
    Limits: {
        "timeout_seconds": min,
        "max_timeout_seconds": min,
        "idle_timeout_seconds": _smaller_or_none,
        "max_frame_bytes": min,
        "max_answer_bytes": min,
        "max_in_flight": min,
        "memory_bytes": _smaller_or_none,
        "processes": _smaller_or_none,
        "cpu_seconds": _smaller_or_none,
        "file_size_bytes": _smaller_or_none,
        "open_files": _smaller_or_none,
    },
    PathRules: {
        "file_trust": _stricter("private", "regular"),
        "backslash": _backslash,
        "protected": _united,
    },
    Confinement: {
        "network": _stricter("off", "ports", "full"),
        "connect_ports": _common,
        "bind_ports": _common,
        "runtime_read_paths": _common,
        "runtime_write_paths": _common,
        "reserved_ports": _united,
        # fail makes harmless too, see docs/adr/0102
        "planted_files": _stricter("fail", "neutralise", "report"),
        "observe": _stricter("reads", "changes", "off"),
    },
    Protections: dict.fromkeys(PROTECTIONS, _stricter("strict", "degradable", "off")),
    ArgumentPolicy: {
        "mode": _stricter("enforce", "advisory", "off"),
        "unknown_tools": _stricter("deny", "allow"),
        "tools": _common_or_none,
        "documents": _united,
    },
    AssurancePolicy: {
        "formulas": _united,
        "max_brittleness": min,
    },
    AuditRules: {
        "path": _one_file,
        "on_failure": _stricter("refuse", "continue"),
    },
}
"""How each field narrows. Classes nested in BrokerPolicy are merged field by field."""

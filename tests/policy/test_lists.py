"""Lists may be given wherever a policy keeps a tuple. `make types` checks that type checkers take them too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec import ArgumentPolicy, AssurancePolicy, BrokerPolicy, Confinement, EnvironmentPolicy, PathRules, PolicyError


def policies_of_lists(workspace: str) -> list[attrs.AttrsInstance]:
    """Every tuple of a policy, given as a list."""
    return [
        BrokerPolicy(workspace=workspace, allowed_executables=["python3", "true"]),
        EnvironmentPolicy(inherit=["TERM"], request_names=["LANG"], path=["/usr/bin", "/bin"]),
        PathRules(protected=["secret"]),
        Confinement(
            network="ports",
            connect_ports=[443],
            bind_ports=[8080],
            runtime_read_paths=["/opt"],
            runtime_write_paths=["/srv/cache"],
            reserved_ports=[22],
        ),
        ArgumentPolicy(tools=["git"], documents=["/rules.toml"]),
        AssurancePolicy(formulas=["AG !network_open"]),
    ]


def _tuples(policy: attrs.AttrsInstance) -> list[str]:
    return [field.name for field in attrs.fields(type(policy)) if "tuple[" in str(field.type)]


def test_a_list_becomes_a_tuple_in_every_field_that_keeps_one(tmp_path: Path) -> None:
    for policy in policies_of_lists(str(tmp_path)):
        assert _tuples(policy)
        for name in _tuples(policy):
            value = getattr(policy, name)
            assert type(value) is tuple and value, name


@pytest.mark.parametrize("given", ["text", {"a": 1}, {"a"}, 1, b"x"], ids=repr)
def test_what_is_no_list_is_refused_in_every_one_of_them(given: Any, tmp_path: Path) -> None:
    for policy in policies_of_lists(str(tmp_path)):
        for name in _tuples(policy):
            with pytest.raises(PolicyError, match=f"{name}: must be a list, not {type(given).__name__}"):
                attrs.evolve(policy, **{name: given})

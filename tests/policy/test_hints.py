"""A key that a policy does not have gets a word about the one that was probably meant."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from fable_exec.errors import PolicyError
from fable_exec.policy import BrokerPolicy, parse_toml
from tests.bounds import BUSY_SECONDS

TOP = "the top level, in TOML above the first [table]"
HINTS = {
    "limits.max_output_bytes": f"max_output_bytes belongs to {TOP}",
    "limits.max-output-bytes": f"max_output_bytes belongs to {TOP}",
    "timeout_seconds": "timeout_seconds belongs to [limits]",
    "protections": "protections belongs to [confinement]",
    "confinement.host_reads": "host_reads belongs to [confinement.protections]",
    "path": "path belongs to [environment] or [audit]",
    "limits.timeout_second": "did you mean timeout_seconds?",
    "limits.timeout": "did you mean timeout_seconds?",
    "timeout": "did you mean timeout_seconds? It belongs to [limits]",
    "maxOutputBytes": "did you mean max_output_bytes?",
    "allowed_executable": "did you mean allowed_executables?",
    "executables": "did you mean allowed_executables?",
    "env": "did you mean environment?",
    "confinement.protections.networks": "did you mean network?",
}
WITHOUT = ("colour", "x", "", "limits.speed", "limits.$schema", "y" * 65)


def fault_of(place: str, workspace: Path) -> tuple[str, str]:
    """The one fault of a document with a wrong key at `place`."""
    *tables, key = place.split(".")
    document: dict[str, Any] = {key: 1}
    for table in reversed(tables):
        document = {table: document}
    with pytest.raises(PolicyError) as caught:
        BrokerPolicy.from_mapping({"workspace": str(workspace), **document})
    (fault,) = caught.value.faults
    return fault


@pytest.mark.parametrize(("place", "hint"), HINTS.items(), ids=HINTS)
def test_a_key_in_the_wrong_place_or_nearly_right_is_told_where_it_belongs(place: str, hint: str, workspace: Path) -> None:
    assert fault_of(place, workspace) == (place, f"unknown key; {hint}")


@pytest.mark.parametrize("place", WITHOUT)
def test_a_key_that_resembles_none_is_just_unknown(place: str, workspace: Path) -> None:
    assert fault_of(place, workspace)[1] == "unknown key"


def test_a_key_that_stands_below_the_wrong_table_of_a_toml_file_is_told_to_stand_above(workspace: Path) -> None:
    with pytest.raises(PolicyError, match=r"limits\.max_output_bytes: unknown key; .* above the first \[table\]"):
        parse_toml(f'workspace = "{workspace}"\n[limits]\ntimeout_seconds = 5\nmax_output_bytes = 5\n')


def test_thousands_of_wrong_keys_cost_no_time_and_all_are_listed(workspace: Path) -> None:
    wrong = {f"timeout_second{number}": 1 for number in range(20_000)}
    began = time.process_time()
    with pytest.raises(PolicyError) as caught:
        BrokerPolicy.from_mapping({"workspace": str(workspace), **wrong})
    assert time.process_time() - began < BUSY_SECONDS
    assert [path for path, _ in caught.value.faults] == list(wrong)
    assert "did you mean" in caught.value.faults[0][1]
    assert len(str(caught.value)) < 10_000

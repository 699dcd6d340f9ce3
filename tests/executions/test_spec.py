"""A specification that could not be carried out, or not be told of, is refused before anything is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fable_exec.errors import InvalidRequest
from fable_exec.executions.proofterms import ProofTerms
from fable_exec.executions.spec import ExecutionSpec

REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("argv", {"argv": "true"}),
    ("argv", {"argv": []}),
    ("argv", {"argv": ["true", 1]}),
    ("argv", {"argv": ["", "x"]}),
    ("argv", {"argv": ["true", "a\0b"]}),
    ("argv", {"argv": ["true", "\ud800"]}),
    ("argv", {"argv": ["true", *["x" * 100_000] * 12]}),
    ("argv", {"argv": ["true", *["é" * 60] * 9_000]}),
    ("argv", {"argv": ["true", *["\x01" * 100_000] * 3]}),
    ("argv", {"argv": ["true", "x" * 200_000]}),
    ("argv", {"argv": ["true"] * 10_001}),
    ("spec_text", {"spec_text": 5}),
    ("spec_text", {"spec_text": "\ud800"}),
    ("spec_text", {"spec_text": "x" * 1_048_577}),
    ("policy_failure_codes", {"policy_failure_codes": 5}),
    ("policy_failure_codes", {"policy_failure_codes": [0]}),
    ("policy_failure_codes", {"policy_failure_codes": [True]}),
    ("environment", {"environment": {"A=B": "x"}}),
    ("environment", {"environment": {"A": "x\0"}}),
    ("labels", {"labels": {str(number): "" for number in range(65)}}),
    ("labels", {"labels": {"a": "x" * 257}}),
    ("hard_timeout_seconds", {"hard_timeout_seconds": 0}),
    ("hard_timeout_seconds", {"hard_timeout_seconds": float("nan")}),
    ("idle_timeout_seconds", {"idle_timeout_seconds": float("inf")}),
    ("stop_grace_seconds", {"stop_grace_seconds": -1}),
    ("stop_grace_seconds", {"stop_grace_seconds": True}),
    ("heartbeat_seconds", {"heartbeat_seconds": 0}),
    ("log_bytes", {"log_bytes": -1}),
    ("max_output_bytes", {"max_output_bytes": 1.5}),
    ("restarts", {"restarts": 101}),
    ("verdict", {"verdict": "nonsense"}),
    ("engine_dir", {"verdict": "proof", "engine_dir": "a/b"}),
    ("proof", {"proof": ProofTerms()}),
    ("valid UUID", {"execution_id": "bad"}),
]


@pytest.mark.parametrize(("told", "members"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_what_cannot_be_carried_out_is_refused_by_its_name(workspace: Path, told: str, members: dict[str, Any]) -> None:
    with pytest.raises((InvalidRequest, ValueError), match=told) as refused:
        ExecutionSpec(**{"argv": ["true"], "workspace": workspace, **members})
    assert len(str(refused.value)) < 500


def test_bytes_that_are_no_text_are_taken(workspace: Path) -> None:
    spec = ExecutionSpec(argv=["true", "\udcff"], workspace=workspace, spec_text="\udcff")
    assert len(spec.fingerprint()) == 64


def test_everything_but_the_id_is_in_the_fingerprint(workspace: Path) -> None:
    plain = ExecutionSpec(argv=["true"], workspace=workspace)
    assert ExecutionSpec(argv=["true"], workspace=workspace, execution_id="0" * 31 + "1").fingerprint() == plain.fingerprint()
    others: list[dict[str, Any]] = [
        {"argv": ["true", ""]}, {"environment": {"A": "1"}}, {"spec_text": ""}, {"hard_timeout_seconds": 1},
        {"labels": {"a": "b"}}, {"idle_timeout_seconds": 1}, {"stop_grace_seconds": 1}, {"log_bytes": 1},
        {"max_output_bytes": 1}, {"restarts": 1},
        {"policy_failure_codes": []}, {"heartbeat_seconds": 1}, {"descendant_grace_seconds": 1}, {"restart_delay_seconds": 2},
    ]  # fmt: skip
    found = {ExecutionSpec(**{"argv": ["true"], "workspace": workspace, **other}).fingerprint() for other in others}
    assert len(found | {plain.fingerprint()}) == len(others) + 1

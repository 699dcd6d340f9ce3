"""Gaps, cost, version, gates, run and seal: each axis by a table."""

from __future__ import annotations

from typing import Any

import pytest

from fable_exec.proofbind import AxisState, ProofDocument
from fable_exec.proofbind.axes import MAX_DETAIL, AxisResult
from fable_exec.proofbind.coherence import COMPLETED_RUN_STATUSES, check_cost, check_execution, check_gates, check_schema
from fable_exec.proofbind.facts import FAILED_RUN_STATUSES
from fable_exec.proofbind.gaps import check_degraded, facts_gaps, gap_texts
from fable_exec.proofbind.seal import check_hash
from tests.proofbind.receipts import ABSENT, VALID, changed, facts, gate

PASSED = (AxisState.PASS, "")
NO_TOKENS = {"input_tokens": 0, "output_tokens": 0, "cache_read_tokens": None, "cache_creation_tokens": 0}


def document(changes: dict[str, Any]) -> ProofDocument:
    return ProofDocument(changed(changes))


def answer(result: AxisResult) -> tuple[AxisState, str]:
    assert bool(result.detail) is not result.is_pass
    return result.state, result.reason


def failed(reason: str) -> tuple[AxisState, str]:
    return AxisState.FAIL, reason


def unchecked(reason: str) -> tuple[AxisState, str]:
    return AxisState.UNCHECKED, reason


@pytest.mark.parametrize("version", ["1", "1.0", "1.1", "1.99", "1.1.0", "1.123456789"])
def test_every_minor_of_version_1_is_known(version: str) -> None:
    assert answer(check_schema(document({"schema_version": version}))) == PASSED


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        (ABSENT, "schema-missing"),
        (None, "schema-missing"),
        *((value, "schema-unsupported") for value in ("2.0", "2", "0.9", "0.1", "10.1", "11", "100000000000000000000000")),
        *((value, "schema-unreadable") for value in (
            "", " 1.1 ", "1.1\n", "+1.0", "01.1", "0_1.1", "1_0", "\uff11.1", "\u0661.1", "1.1-evil", "1.", ".1", "v1.1", "1..1",
            "1.01", "1.\uff11", "x" * 10_000, True, 1, 1.1, [], ["1.1"], {"major": 1},
        )),
    ],
    ids=lambda value: repr(value)[:30],
)  # fmt: skip
def test_any_other_version_fails(version: Any, reason: str) -> None:
    assert answer(check_schema(document({"schema_version": version}))) == failed(reason)


def cost(**members: Any) -> dict[str, Any]:
    return {"cost": members, "facts/cost": members}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, PASSED),
        (cost(usd=None, **NO_TOKENS, available=False), PASSED),
        (cost(), PASSED),
        (cost(usd=0.0, input_tokens=1, available=True), PASSED),
        (cost(input_tokens=True, available=True), PASSED),
        (cost(usd="4.2", input_tokens="12"), PASSED),
        (cost(usd=None, **NO_TOKENS, available=True), failed("cost-incoherent")),
        (cost(usd=-3.0, input_tokens=-4, available=True), failed("cost-incoherent")),
        (cost(usd="4.2", input_tokens="12", available=True), failed("cost-incoherent")),
        (cost(input_tokens=1, available=False), failed("cost-incoherent")),
        (cost(usd=0.01, available=False), failed("cost-incoherent")),
        (cost(usd=True, available=False), failed("cost-incoherent")),
        (cost(usd=99.0, **NO_TOKENS, available=True), failed("cost-incoherent")),
        (cost(usd=99.0), failed("cost-incoherent")),
        ({"cost/usd": 0.0188}, failed("cost-disagrees")),
        ({"cost": {"input_tokens": 5, "available": True}}, failed("cost-disagrees")),
        ({"facts/cost": ABSENT}, PASSED),
        ({"cost": "free"}, unchecked("cost-not-an-object")),
        ({"cost": None}, unchecked("cost-not-an-object")),
        ({"cost": ABSENT}, unchecked("cost-not-an-object")),
        ({"cost": [], "facts": "x"}, unchecked("cost-not-an-object")),
    ],
    ids=str,
)
def test_cost(changes: dict[str, Any], expected: tuple[AxisState, str]) -> None:
    assert answer(check_cost(document(changes))) == expected


def gates(*listed: dict[str, str]) -> dict[str, Any]:
    return {"facts/quality_gates": list(listed), "quality_gates/gates": list(listed)}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, PASSED),
        (gates(), PASSED),
        (gates(gate("lint"), gate("lint", "not_run")), PASSED),
        (gates(gate("lint", "failed")), failed("gates-failed")),
        (gates(gate("code_review", "failed", "advisory")), failed("gates-failed")),
        (gates(gate("lint"), gate("lint", "failed")), failed("gates-failed")),
        (gates(gate("lint", "passed", "advisory")), failed("gates-relabelled")),
        ({"facts/quality_gates": []}, failed("gates-disagree")),
        ({"quality_gates/gates": [gate("unit_tests", "failed", "advisory")]}, failed("gates-disagree")),
        ({"quality_gates": "x"}, failed("gates-disagree")),
        ({"quality_gates": ABSENT}, PASSED),
        ({"quality_gates/gates": "x"}, unchecked("gates-facts-malformed")),
        ({"facts/quality_gates": ["lint"]}, unchecked("gates-facts-malformed")),
        ({"facts": ABSENT}, unchecked("gates-no-facts")),
    ],
    ids=str,
)
def test_gates(changes: dict[str, Any], expected: tuple[AxisState, str]) -> None:
    assert answer(check_gates(document(changes))) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        *(({"facts/execution/run_status": status}, PASSED) for status in sorted(COMPLETED_RUN_STATUSES)),
        *(({"facts/execution/run_status": status}, failed("execution-failed")) for status in sorted(FAILED_RUN_STATUSES)),
        ({"facts/execution/run_status": " Paused "}, failed("execution-failed")),
        ({"facts/execution/run_status": "running"}, unchecked("execution-unfinished")),
        ({"facts/execution/run_status": None}, unchecked("execution-unfinished")),
        ({"facts/execution/exit_code": None}, unchecked("execution-unfinished")),
        ({"facts/execution/exit_code": 1}, failed("execution-failed")),
        ({"facts/execution/terminated": True}, failed("execution-failed")),
        ({"facts/execution/outcome": "intervention"}, failed("execution-failed")),
        ({"facts/execution/outcome": None}, PASSED),
        ({"facts/execution": ABSENT}, unchecked("execution-unfinished")),
        ({"facts/execution": "x"}, unchecked("execution-facts-malformed")),
        ({"facts": 1}, unchecked("execution-no-facts")),
    ],
    ids=str,
)
def test_execution(changes: dict[str, Any], expected: tuple[AxisState, str]) -> None:
    assert answer(check_execution(document(changes))) == expected


GAPS: list[tuple[dict[str, Any], str]] = [
    ({"facts/execution/exit_code": 1}, "execution"),
    *(({"facts/tests/status": status}, "tests") for status in ("not_run", "inconclusive", "skipped", "failed")),
    *(({"facts/build/status": status}, "build") for status in ("not_run", "inconclusive", "skipped", "failed")),
    *((gates(gate("lint", status)), "quality_gate:lint") for status in ("not_run", "inconclusive", "failed")),
    (gates(gate("lint", "failed"), gate("lint")), "quality_gate:lint"),
    (gates(gate("lint", "failed", "advisory")), "quality_gate:lint"),
    ({"facts/security/ran": True, "facts/security/high_active": 1}, "security"),
    ({"facts/git/diff/count": 0}, "git.diff"),
    ({"facts/functionality/auth/state": "gap"}, "functionality:auth"),
]


@pytest.mark.parametrize(("changes", "item"), GAPS, ids=str)
def test_a_gap_that_follows_from_the_facts_has_to_be_owned_up_to(changes: dict[str, Any], item: str) -> None:
    def with_entries(*entries: Any) -> tuple[AxisState, str]:
        return answer(check_degraded(document({**changes, "honesty/degraded": list(entries)})))

    assert facts_gaps(facts(changed(changes))) == (item,)
    assert with_entries({"item": item, "status": "failed", "reason": "it is so"}) == PASSED
    assert with_entries(item) == PASSED
    assert with_entries(item, {"item": "more", "post_headline": True}) == PASSED
    for more in ({"item": "more"}, {"item": ["x"]}, {}, "free text", 5, None, ["x"]):
        assert with_entries({"item": item}, more) == unchecked("degraded-unfounded"), more
    hidden = failed("degraded-hidden")
    assert with_entries() == hidden
    assert with_entries({"item": item, "status": "failed", "post_headline": True}) == hidden
    assert with_entries({"item": item, "status": "disabled"}) == hidden
    assert with_entries({"item": [item]}, {"item": {"a": 1}}, {}, 5, None) == hidden
    assert with_entries("some gap in free text") == unchecked("degraded-only-text")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, PASSED),
        (gates(gate("code_review", "failed", "advisory")), PASSED),
        ({"facts/build/status": "not_applicable"}, PASSED),
        ({"facts/functionality/auth/state": "not_checked"}, PASSED),
        ({"facts/security/high_active": 1}, PASSED),
        ({"facts/git/diff": ABSENT}, PASSED),
        ({"honesty/degraded": None}, PASSED),
        ({"honesty": ABSENT}, PASSED),
        ({"honesty/degraded": {"a": 1}}, failed("degraded-not-a-list")),
        ({"honesty/degraded": "tests"}, failed("degraded-not-a-list")),
        ({"honesty/degraded": False}, failed("degraded-not-a-list")),
        ({"facts": ABSENT}, unchecked("degraded-no-facts")),
        ({"facts/git/diff/count": True}, unchecked("degraded-facts-malformed")),
    ],
    ids=str,
)
def test_degraded(changes: dict[str, Any], expected: tuple[AxisState, str]) -> None:
    assert answer(check_degraded(document(changes))) == expected


def test_entries_are_told_as_bounded_texts_without_those_after_the_headline() -> None:
    entries = [
        {"item": "build", "status": "not_run", "reason": "no command"},
        {"item": "security", "status": "disabled", "post_headline": True},
        {"item": "old", "status": "disabled"},
        {"item": "zz", "post_headline": "true"},
        "bare",
        {"note": 1},
        None,
        "x" * 10_000,
    ]
    texts = gap_texts(document({"honesty/degraded": entries}))
    assert texts == ("build: not_run: no command", "zz", "bare", '{"note": 1}', "null", "x" * MAX_DETAIL)


RIGHT = VALID["verification"]["hash"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, PASSED),
        ({"verification/algo": ABSENT, "verification/scope": ABSENT}, PASSED),
        ({"verification": ABSENT}, failed("hash-missing")),
        ({"verification": "x"}, failed("hash-missing")),
        ({"verification": [{"hash": RIGHT}]}, failed("hash-missing")),
        ({"verification/hash": ABSENT}, failed("hash-missing")),
        ({"verification/hash": None}, failed("hash-missing")),
        ({"verification/hash": ""}, failed("hash-missing")),
        ({"verification/hash": [RIGHT]}, failed("hash-missing")),
        ({"verification/hash": 0}, failed("hash-missing")),
        ({"verification/hash": RIGHT.upper()}, failed("hash-mismatch")),
        ({"verification/hash": f"sha256:{RIGHT}"}, failed("hash-mismatch")),
        ({"verification/hash": f"{RIGHT} "}, failed("hash-mismatch")),
        ({"verification/hash": "\u00e9" * 64}, failed("hash-mismatch")),
        ({"verification/hash": RIGHT[:-1]}, failed("hash-mismatch")),
        ({"cost/usd": 1.0, "verification/hash": RIGHT}, failed("hash-mismatch")),
        ({"added": None, "verification/hash": RIGHT}, failed("hash-mismatch")),
        ({"verification/algo": "md5"}, failed("hash-algorithm")),
        ({"verification/algo": "SHA256"}, failed("hash-algorithm")),
        ({"verification/algo": None}, failed("hash-algorithm")),
        ({"verification/scope": "everything"}, failed("hash-scope")),
        ({"verification/scope": ["integrity"]}, failed("hash-scope")),
        ({"verification/extra": {"injected": True}}, failed("hash-uncovered")),
        ({"verification/": None}, failed("hash-uncovered")),
    ],
    ids=str,
)
def test_the_seal(changes: dict[str, Any], expected: tuple[AxisState, str]) -> None:
    assert answer(check_hash(document(changes))) == expected

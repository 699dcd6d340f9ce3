"""The verdict over one document: what it requires and tells, and that no document makes it raise or pass by a known fault."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from fable_exec.proofbind import Axis, AxisState, IntegrityResult, verify_integrity
from fable_exec.proofbind.signatures import SignatureResult, SignatureStatus, SignedDocument
from fable_exec.testing.strategies import strict_json_values
from tests.bounds import BUSY_SECONDS
from tests.fuzzing import A_TENTH
from tests.proofbind.receipts import ABSENT, VALID, changed, gate
from tests.proofbind.signed import PROOFS

BY_ITSELF = {
    Axis.DOCUMENT, Axis.SCHEMA, Axis.HASH, Axis.SIGNATURE, Axis.HEADLINE, Axis.DEGRADED, Axis.COST, Axis.EXECUTION, Axis.GATES,
}  # fmt: skip


def judged(changes: dict[str, Any], **arguments: Any) -> IntegrityResult:
    return verify_integrity(changed(changes), **arguments)


def states(result: IntegrityResult) -> dict[Axis, AxisState]:
    return {each.axis: each.state for each in result.axes}


class Always:
    """A verifier that has found something already."""

    def __init__(self, scheme: str, status: SignatureStatus) -> None:
        self.scheme = scheme
        self.status = status
        self.asked: list[SignedDocument] = []

    def verify(self, document: SignedDocument) -> SignatureResult:
        self.asked.append(document)
        return SignatureResult(scheme=self.scheme, status=self.status, detail="so it is")


def test_the_valid_receipt_is_ok_as_bytes_and_as_members() -> None:
    raw = (PROOFS / "valid_verified.proof.json").read_bytes()
    result = verify_integrity(raw)
    assert (result.ok, result.reason, result.reasons, result.shortcomings, result.degraded) == (True, "", (), (), ())
    assert (result.hash_ok, result.gpg_ok, result.generator_trusted) == (True, "n/a", True)
    assert (result.headline_consistent, result.cost_coherent) == (True, True)
    assert result == verify_integrity(json.loads(raw))
    assert states(result) == dict.fromkeys(BY_ITSELF, AxisState.PASS) | {Axis.SIGNATURE: AxisState.UNCHECKED}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"schema_version": "2.0"}, "schema-unsupported"),
        ({"verification/hash": "0" * 64}, "hash-mismatch"),
        ({"honesty/headline": "NOT VERIFIED"}, "headline-inconsistent"),
        ({"honesty/headline": ABSENT}, "headline-not-recorded"),
        ({"facts": ABSENT}, "headline-no-facts"),
        ({"facts/git": []}, "headline-facts-malformed"),
        ({"honesty/degraded": {}}, "degraded-not-a-list"),
        ({"cost/usd": 1.0}, "cost-disagrees"),
        ({"verification/gpg_signature": "x"}, "signature-unsupported"),
        ({"verification/attestation": "x"}, "signature-unsupported"),
    ],
    ids=str,
)
def test_each_of_these_alone_stands_against_a_document(changes: dict[str, Any], reason: str) -> None:
    result = judged(changes)
    assert (result.ok, result.reason, result.reasons) == (False, reason, (reason,))


def test_all_reasons_are_told_in_the_order_of_the_axes() -> None:
    wrong = {"schema_version": 1, "verification/hash": "x", "honesty/headline": "", "honesty/degraded": 1, "cost/usd": -1}
    assert judged({**wrong, "verification/gpg_signature": {}}).reasons == (
        "schema-unreadable", "hash-mismatch", "signature-unsupported", "headline-not-recorded", "degraded-not-a-list",
        "cost-disagrees",
    )  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"honesty/headline": "NOT VERIFIED", "facts/execution/exit_code": 1, "honesty/degraded": ["execution"]},
        {
            "honesty/headline": "NOT VERIFIED",
            "facts/quality_gates": [gate("lint", "failed")],
            "honesty/degraded": ["quality_gate:lint"],
        },
        {"cost": "free"},
    ],
    ids=str,
)
def test_an_honest_document_of_a_run_that_failed_is_whole(changes: dict[str, Any]) -> None:
    assert judged(changes).ok


def test_more_axes_can_be_required_and_one_that_nobody_asks_here_never_passes() -> None:
    assert judged({}, required=[Axis.GATES, Axis.EXECUTION, Axis.COST]).ok
    assert judged({"cost": "free"}, required=[Axis.COST]).reasons == ("cost-not-an-object",)
    assert judged({}, required=[Axis.TREE]).reasons == ("tree-not-asked",)


@pytest.mark.parametrize(
    "source", [b"[]", b'"proof"', b"1", b"null", b"", b"{}{}", b"\xff", {1: 2}, {"a": {1}}, [], "{}", 1, None], ids=str
)
def test_what_cannot_be_read_has_one_reason_and_all_fields(source: Any) -> None:
    result = verify_integrity(source)
    assert (result.ok, len(result.reasons), result.reason.partition("-")[0]) == (False, 1, "document")
    assert (result.hash_ok, result.gpg_ok, result.generator_trusted) == (False, "n/a", True)
    assert (result.headline_consistent, result.cost_coherent, result.degraded, result.document) == (None, None, (), None)


@pytest.mark.parametrize("status", [each for each in SignatureStatus if each is not SignatureStatus.ABSENT])
@pytest.mark.parametrize(("scheme", "member"), [("gpg", "gpg_signature"), ("jwt", "attestation")])
def test_a_signature_counts_only_if_it_is_valid(scheme: str, member: str, status: SignatureStatus) -> None:
    verifier = Always(scheme, status)
    result = judged({f"verification/{member}": "text"}, verifiers=[verifier])
    valid = status is SignatureStatus.VALID
    assert result.ok is valid
    assert result.reasons == (() if valid else (f"signature-{status.value}",))
    assert result.gpg_ok == (valid if scheme == "gpg" else "n/a")
    assert result.generator_trusted is not (valid and scheme == "gpg")
    [asked] = verifier.asked
    assert result.document is not None
    assert (asked.canonical, asked.canonical_sha256) == (result.document.canonical, VALID["verification"]["hash"])
    assert asked.run_id == VALID["run_id"]


def test_one_good_signature_does_not_make_up_for_another() -> None:
    both = {"verification/gpg_signature": "text", "verification/attestation": "text"}
    good, bad = Always("gpg", SignatureStatus.VALID), Always("jwt", SignatureStatus.BAD)
    assert judged(both, verifiers=[good, bad]).reasons == ("signature-bad",)
    assert judged(both, verifiers=[good]).reasons == ("signature-unsupported",)
    assert judged(both, verifiers=[bad]).reasons == ("signature-bad",)
    assert judged(both, verifiers=[good, Always("jwt", SignatureStatus.VALID)]).ok


# The findings about the reference that concern a document by itself (docs/reference/proofs.md).


def test_finding_3_a_stripped_signature_does_not_pass_where_one_is_required() -> None:
    assert judged({}).ok
    for value in (ABSENT, None, ""):
        stripped = changed({"verification/gpg_signature": "text"})
        stripped = changed({"verification/gpg_signature": value}, stripped)
        assert verify_integrity(stripped, required=[Axis.SIGNATURE]).reasons == ("signature-absent",)


def test_finding_4_another_major_version_does_not_pass_by_the_way_that_binds() -> None:
    assert not judged({"schema_version": "2.0"}).ok


@pytest.mark.parametrize("name", ["int_4301_digits", "nest_100000", "facts_gates_strings", "facts_gates_object"])
def test_finding_5_what_made_the_reference_raise_is_an_answer(name: str) -> None:
    result = verify_integrity((PROOFS / f"{name}.proof.json").read_bytes())
    assert not result.ok and len(result.reasons) == 1


def test_finding_6_a_gap_cannot_be_hidden_by_a_flag_and_nothing_passes_for_want_of_a_headline_or_facts() -> None:
    gap = {"item": "functionality:auth", "status": "failed", "post_headline": True}
    assert judged({"facts/functionality/auth/state": "gap", "honesty/degraded": [gap]}).reasons == ("degraded-hidden",)
    for changes in ({"honesty": ABSENT}, {"honesty/headline": None}, {"facts": None}, {"facts": []}):
        result = judged(changes)
        assert (result.ok, result.headline_consistent) == (False, None)


def test_finding_7_nothing_that_the_hash_does_not_cover_is_believed() -> None:
    for change in ({"algo": "md5"}, {"scope": "everything"}, {"extra": True}):
        [(name, value)] = change.items()
        assert judged({f"verification/{name}": value}).reasons[0].startswith("hash-")


NAMES = sorted({"facts", "cost", "honesty", "verification", "quality_gates", "headline", *VALID["facts"], *VALID["honesty"]})
PATHS = [
    *VALID,
    *(f"{name}/{inner}" for name in ("facts", "honesty", "verification", "cost", "quality_gates") for inner in VALID[name]),
    *(f"facts/{name}/{inner}" for name, block in VALID["facts"].items() if isinstance(block, dict) for inner in block),
    "facts/git/diff/count",
]  # fmt: skip
ODD_NAMES = st.sampled_from([*NAMES, "item", "status", "name", "provenance", "post_headline", "hash", "count"])
ODD = strict_json_values() | st.recursive(
    st.sampled_from([*NAMES, 0, None, True, ""]), lambda inner: st.lists(inner) | st.dictionaries(ODD_NAMES, inner)
)


@pytest.mark.fuzz
@A_TENTH
@hypothesis.given(st.lists(st.tuples(st.sampled_from(PATHS), ODD), min_size=1, max_size=3, unique_by=lambda change: change[0]))
def test_no_member_of_any_type_makes_it_raise_or_answer_against_itself(changes: Sequence[tuple[str, Any]]) -> None:
    try:
        made = changed(dict(sorted(changes)))
    except (TypeError, KeyError, IndexError):  # a path through what another change has replaced
        return
    for required in ((), tuple(Axis)):
        result = verify_integrity(made, [Always("gpg", SignatureStatus.VALID)], required=required)
        assert result.ok is (not result.reasons) is (result.reason == "")
        assert all(each.is_pass is (each.reason == "") for each in result.axes)
        if result.ok:
            assert result.hash_ok and result.headline_consistent and result.cost_coherent is not False
    assert verify_integrity(json.dumps(made).encode()).reasons == verify_integrity(made).reasons


@pytest.mark.fuzz
@hypothesis.given(st.binary(max_size=200), st.integers(0, 6000), st.integers(0, 50))
def test_no_bytes_pass_but_those_of_an_equal_document(patch: bytes, at: int, length: int) -> None:
    raw = (PROOFS / "valid_verified.proof.json").read_bytes()
    made = raw[:at] + patch + raw[at + length :]
    result = verify_integrity(made)
    if result.ok:
        assert json.loads(made) == VALID


@pytest.mark.parametrize(
    "changes",
    [
        {"facts/functionality": {str(number): {"state": "gap"} for number in range(40_000)}},
        {"honesty/degraded": [{"item": str(number)} for number in range(40_000)]},
        {"facts/quality_gates": [gate(f"g{number}", "failed") for number in range(20_000)]},
        {"verification/hash": "x" * 3_000_000},
        {"honesty/headline": " " * 3_000_000},
        {"schema_version": "1" + ".1" * 1_000_000},
        {"schema_version": "1" * 3_000_000},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_no_document_of_a_size_that_is_read_is_dear(changes: dict[str, Any]) -> None:
    raw = json.dumps(changed({**changes, "verification/hash": "x"} if "verification/hash" not in changes else changes)).encode()
    begun = time.process_time()
    result = verify_integrity(raw)
    assert time.process_time() - begun < BUSY_SECONDS
    assert result.document is not None and not result.ok
    assert all(len(each.detail) <= 300 for each in result.axes)

"""Attestations of ours: what they say, that openssl and we accept them, and everything that must make them refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec.attest import (
    PREDICATE_TYPE,
    PROOF_SUBJECT,
    TREE_SUBJECT,
    AttestationResult,
    Envelope,
    ExecutionFacts,
    PublicKey,
    Signature,
    Statement,
    Subject,
    TreeFacts,
    attest,
    verify_attestation,
)
from fable_exec.attest.attesting import sign
from fable_exec.attest.statements import PAYLOAD_TYPE
from fable_exec.errors import InvalidRequest
from fable_exec.proofbind import Axis, AxisResult, AxisState, ProofBinding
from fable_exec.treedigest import Level
from tests.attest.made import DOCUMENT, KEYS, OTHER, RUN, TREE, Binding, tree

KEY = KEYS["ed25519"]
EXPECTED = {TREE_SUBJECT: TREE, PROOF_SUBJECT: DOCUMENT}
BOTH = pytest.mark.parametrize("algorithm", sorted(KEYS))


def attested(algorithm: str = "ed25519", **fields: Any) -> Envelope:
    return attest(KEYS[algorithm], RUN, tree(), **{"proof": Binding(), **fields})


def judged(envelope: bytes | Envelope, keys: Any = (KEY.public,), subjects: Any = EXPECTED, **fields: Any) -> AttestationResult:
    return verify_attestation(envelope, keys, subjects, **fields)


def test_it_tells_what_ran_and_what_it_left() -> None:
    envelope = attested(artifacts={"dist/x.whl": "e" * 64})
    result = judged(envelope, subjects={**EXPECTED, "dist/x.whl": "e" * 64})
    assert (result.ok, result.bound, result.signers) == (True, True, (KEY.public,))
    assert result.statement is not None
    assert result.statement.predicate == {
        "bound": True,
        "execution": {
            "argv": ["make", "test", "café", {"b": "_w"}],
            "confinement": [
                {"protection": "network", "mode": "strict", "state": "active", "means": "network namespace", "reason": ""},
                {"protection": "host_reads", "mode": "degradable", "state": "degraded", "means": "", "reason": "x"},
            ],
            "exitCode": 0, "finishedAt": "2026-01-02T03:04:06Z", "id": "00000000-0000-4000-8000-000000000000",
            "materialsSha256": "d" * 64, "policySha256": "c" * 64, "signal": None, "startedAt": "2026-01-02T03:04:05Z",
            "terminationReason": "completed",
        },
        "proof": {"axes": {"hash": "pass"}, "documentSha256": DOCUMENT, "headline": "VERIFIED", "runId": "run-1"},
        "tree": {
            "engineDirectory": None, "level": "stable", "profile": "tree", "readAt": None, "sha256": TREE, "unproven": 0,
        },
    }  # fmt: skip


def test_an_envelope_has_exactly_one_signature_named_as_securesystemslib_does() -> None:
    [signature] = attested().signatures
    assert signature.keyid == KEY.public.keyid
    assert len(signature.value) == 64


def test_the_same_facts_are_the_same_bytes() -> None:
    assert attested() == attested()


def test_a_run_without_a_proof_is_attested_as_what_it_is() -> None:
    result = judged(attest(KEY, RUN, tree(level=Level.SEALED)), subjects={TREE_SUBJECT: TREE})
    assert (result.ok, result.bound) == (True, False)
    assert judged(attest(KEY, RUN, tree()), subjects=EXPECTED).reasons == ("subject-missing",)


@pytest.mark.parametrize(
    ("proof", "what"),
    [
        (Binding(bound=False), "not bound"),
        (Binding(bound=1), "not bound"),  # type: ignore[arg-type]  # what a careless caller could pass
        (Binding(tree_sha256="f" * 64), "another tree"),
        (Binding(tree_sha256=None), "another tree"),  # type: ignore[arg-type]  # as above
        (Binding(document_sha256=None), "proof.json"),  # type: ignore[arg-type]  # as above
    ],
)
def test_nothing_is_signed_that_would_not_hold(proof: Binding, what: str) -> None:
    with pytest.raises(InvalidRequest, match=what):
        attested(proof=proof)


def test_what_bind_returns_is_attested_as_it_is() -> None:
    fields: dict[str, Any] = {
        "present": True, "run_id": "run-1", "headline": "VERIFIED", "tree_sha256": TREE, "document_sha256": DOCUMENT,
        "proof_path": "/p", "snapshotted": True, "snapshot_error": "", "tree_fields_agree": True,
        "axes": (AxisResult(Axis.HASH, AxisState.PASS),),
    }  # fmt: skip
    assert attested(proof=ProofBinding(**fields)) == attested()
    against = AxisResult(Axis.TREE, AxisState.FAIL, "tree-differs", "x")
    with pytest.raises(InvalidRequest, match="not bound"):
        attested(proof=ProofBinding(**fields, shortcomings=(against,)))


@pytest.mark.parametrize("artifacts", [{"x": ""}, {"x": "A" * 64}, {"": "a" * 64}, {TREE_SUBJECT: "a" * 64}])
def test_artifacts_need_a_name_of_their_own_and_a_digest(artifacts: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        attested(artifacts=artifacts)


@pytest.mark.parametrize("name", ["policy_digest", "materials_sha256"])
def test_facts_name_digests_and_nothing_else(name: str) -> None:
    changed: dict[str, Any] = {name: "C" * 64}
    with pytest.raises(InvalidRequest, match=f"{name} is no SHA-256"):
        attrs.evolve(RUN, **changed)


def test_a_tree_without_a_digest_is_not_attested() -> None:
    with pytest.raises(InvalidRequest, match=r"workspace\.treedigest\.json"):
        attest(KEY, RUN, TreeFacts(sha256=""))


STATE: dict[str, Any] = {
    "state": "exited", "argv": ["make"], "policy_digest": "c" * 64, "execution_id": "x", "termination_reason": "crashed",
    "exit_code": None, "signal": 9, "started_at": "s", "finished_at": "f",
    "confinement": [{"protection": "network", "mode": "strict", "state": "active", "means": "m", "reason": ""}],
}  # fmt: skip


def test_the_facts_of_a_supervised_execution_are_those_of_its_state() -> None:
    facts = ExecutionFacts.of_state(STATE, materials_sha256="d" * 64)
    assert (facts.argv, facts.signal, facts.exit_code, facts.materials_sha256) == (("make",), 9, None, "d" * 64)
    assert facts.to_members()["confinement"] == STATE["confinement"]
    assert ExecutionFacts.of_state({**STATE, "confinement": None}).confinement == ()


@pytest.mark.parametrize("changed", [{"state": "running"}, {"state": "accepted"}, {"started_at": None}])
def test_what_has_not_run_or_not_ended_is_not_attested(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="has run and has ended"):
        ExecutionFacts.of_state({**STATE, **changed})


@pytest.mark.requires_ability("openssl")
@BOTH
def test_openssl_verifies_it_over_the_bytes_that_are_signed(algorithm: str, tmp_path: Path) -> None:
    envelope = attested(algorithm)
    (tmp_path / "pae").write_bytes(envelope.signed_bytes)
    (tmp_path / "sig").write_bytes(envelope.signatures[0].value)
    (tmp_path / "pub").write_text(KEYS[algorithm].public.pem)
    raw = ["pkeyutl", "-verify", "-pubin", "-inkey", "pub", "-rawin", "-in", "pae", "-sigfile", "sig"]
    argv = raw if algorithm == "ed25519" else ["dgst", "-sha256", "-verify", "pub", "-signature", "sig", "pae"]
    assert subprocess.run(["openssl", *argv], cwd=tmp_path, capture_output=True).returncode == 0
    (tmp_path / "pae").write_bytes(envelope.signed_bytes.replace(b"make", b"mako"))
    assert subprocess.run(["openssl", *argv], cwd=tmp_path, capture_output=True).returncode == 1


def says(data: bytes) -> tuple[Any, ...]:
    """All of an envelope but the hints which key signed it."""
    found = Envelope.from_json(data)
    return found.payload_type, found.payload, [each.value for each in found.signatures]


@BOTH
def test_every_changed_byte_is_refused_unless_it_says_the_same(algorithm: str) -> None:
    data = attested(algorithm).to_json()
    keys = [KEYS[algorithm].public]
    assert judged(data, keys).ok
    for position in range(len(data)):
        edited = bytearray(data)
        edited[position] ^= 1
        result = judged(bytes(edited), keys)
        assert not result.ok or says(bytes(edited)) == says(data), position
        assert result.ok is (result.reasons == ())
        assert result.ok or result.statement is None


def resigned(change: Callable[[dict[str, Any]], None], key: Any = KEY) -> Envelope:
    """Signed by the right key, with something else in it."""
    found = json.loads(attested().payload)
    change(found)
    return sign(key, PAYLOAD_TYPE, json.dumps(found).encode())


@pytest.mark.parametrize(
    ("change", "reasons"),
    [
        (lambda found: found["subject"][0]["digest"].update(sha256="0" * 64), ("subject-differs",)),
        (lambda found: found["subject"].reverse(), ()),
        (lambda found: found.update(subject=found["subject"][1:]), ("subject-missing",)),
        (lambda found: found.update(subject=[]), ("subject-missing", "subject-missing")),
        (lambda found: found["subject"].append(found["subject"][0]), ("subject-duplicate",)),
        (lambda found: found["subject"][0].update(digest={"sha512": "x"}), ("subject-differs",)),
        (lambda found: found["subject"][0]["digest"].update(gitTree="x"), ()),
        (lambda found: found.update(predicateType="https://slsa.dev/provenance/v1"), ("predicate-type",)),
        (lambda found: found.update(predicateType=PREDICATE_TYPE + "/"), ("predicate-type",)),
        (lambda found: found.update(_type="https://in-toto.io/Statement/v0.1"), ("statement-foreign",)),
        (lambda found: found.update(predicateType="x", subject=[]), ("predicate-type", "subject-missing", "subject-missing")),
    ],
)
def test_what_was_signed_must_be_what_is_expected(change: Callable[[dict[str, Any]], None], reasons: tuple[str, ...]) -> None:
    assert judged(resigned(change)).reasons == reasons


def test_two_subjects_that_swapped_their_digests_are_refused() -> None:
    def swap(found: dict[str, Any]) -> None:
        one, two = found["subject"]
        one["digest"], two["digest"] = two["digest"], one["digest"]

    assert judged(resigned(swap)).reasons == ("subject-differs", "subject-differs")


def test_an_attestation_of_another_tree_is_refused() -> None:
    assert judged(attested(), subjects={TREE_SUBJECT: "0" * 64}).reasons == ("subject-differs",)
    assert judged(attested(), subjects={"proof": DOCUMENT}).reasons == ("subject-missing",)


def test_what_is_not_checked_is_never_ok() -> None:
    for subjects in (None, {}):
        result = judged(attested(), subjects=subjects)
        assert (result.ok, result.bound, result.reasons) == (False, False, ("subject-unchecked",))
        assert result.statement is not None  # it is by the key, and says so


def test_a_wrong_key_is_refused_and_nothing_of_the_payload_is_given_out() -> None:
    result = judged(attested(), [OTHER.public])
    assert (result.reasons, result.statement, result.signers) == (("unknown-key", "too-few-signatures"), None, ())
    [signature] = attested().signatures
    claimed = attrs.evolve(attested(), signatures=(Signature(OTHER.public.keyid, signature.value),))
    assert judged(claimed, [OTHER.public, KEY.public]).reasons == ("bad-signature", "too-few-signatures")


def with_signatures(*signatures: Signature) -> Envelope:
    return attrs.evolve(attested(), signatures=signatures)


def signature_of(key: Any, keyid: str | None = None) -> Signature:
    value = key.sign(attested().signed_bytes)
    return Signature(key.public.keyid if keyid is None else keyid, value)


def test_a_duplicate_signature_is_refused_however_it_is_disguised() -> None:
    of_key = signature_of(KEY)
    for signatures in ((of_key, of_key), (of_key, signature_of(KEY, "")), (Signature("", of_key.value), of_key)):
        assert judged(with_signatures(*signatures)).reasons[0] == "duplicate-signature"
    of_curve = signature_of(KEYS["p256"]), signature_of(KEYS["p256"], "")
    assert of_curve[0].value != of_curve[1].value
    assert judged(with_signatures(*of_curve), [KEYS["p256"].public]).reasons == ("duplicate-signature",)


def test_a_threshold_is_of_keys_not_of_signatures() -> None:
    keys = [KEY.public, OTHER.public, KEYS["p256"].public]
    two = with_signatures(signature_of(KEY), signature_of(OTHER))
    assert judged(two, keys, threshold=2).ok
    assert judged(two, keys, threshold=3).reasons == ("too-few-signatures",)
    assert judged(attested(), keys, threshold=2).reasons == ("too-few-signatures",)
    again = PublicKey.from_pem(KEY.public.pem.encode(), alias="another name")
    with pytest.raises(InvalidRequest, match="2 signatures cannot be had from 1 keys"):
        judged(attested(), [KEY.public, again], threshold=2)
    named = with_signatures(signature_of(KEY), signature_of(KEY, "another name"))
    assert "duplicate-signature" in judged(named, [again, OTHER.public], threshold=2).reasons


def test_a_stranger_may_sign_as_well_but_a_bad_signature_of_a_named_key_refuses() -> None:
    beside = with_signatures(signature_of(OTHER), signature_of(KEY))
    assert judged(beside).ok
    forged = with_signatures(signature_of(KEY), Signature(OTHER.public.keyid, b"x" * 64))
    assert judged(forged, [KEY.public, OTHER.public]).reasons == ("bad-signature",)


def test_a_signature_without_the_id_of_its_key_is_tried_with_all() -> None:
    assert judged(with_signatures(signature_of(KEY, "")), [OTHER.public, KEY.public]).signers == (KEY.public,)


def test_no_signature_and_another_type_of_payload_are_refused() -> None:
    assert judged(with_signatures()).reasons == ("too-few-signatures",)
    assert judged(sign(KEY, "text/plain", attested().payload)).reasons == ("payload-type",)
    assert judged(sign(KEY, PAYLOAD_TYPE, b"x")).reasons == ("statement-torn",)
    assert judged(b"x").reasons == ("envelope-torn",)
    assert judged(b"[]").reasons == ("envelope-foreign",)


@pytest.mark.parametrize(("keys", "fields"), [((), {}), ((KEY.public,), {"threshold": 0}), ((KEY.public,), {"threshold": 2})])
def test_a_threshold_that_no_keys_can_reach_is_a_wrong_question(keys: Any, fields: Any) -> None:
    with pytest.raises(InvalidRequest, match="signatures cannot be had"):
        judged(attested(), keys, **fields)
    with pytest.raises(InvalidRequest, match="no SHA-256"):
        judged(attested(), subjects={TREE_SUBJECT: "a" * 63})


def test_long_and_unprintable_words_of_others_stay_short_and_printable() -> None:
    strange = "\x1b[31m" + "x" * 1000
    results = [
        judged(sign(KEY, strange, b"{}")),
        judged(with_signatures(Signature(strange, b"x"))),
        judged(
            sign(KEY, PAYLOAD_TYPE, Statement((Subject(strange, TREE),), strange, {}).to_json()), subjects={strange: DOCUMENT}
        ),
    ]
    details = [each.detail for result in results for each in result.objections]
    assert len(details) >= 4
    assert all(len(detail) < 700 and detail.isprintable() for detail in details)


def test_a_signer_that_keeps_its_key_elsewhere_will_do() -> None:
    @attrs.frozen
    class Remote:
        keyid: str = KEY.public.keyid

        def sign(self, message: bytes) -> bytes:
            return KEY.sign(message)

    assert judged(attest(Remote(), RUN, tree(), proof=Binding())).ok


def test_all_of_a_result_is_json() -> None:
    members = judged(attested()).to_members()
    assert json.loads(json.dumps(members)) == members
    assert (members["ok"], members["bound"], members["statement"]["subjects"]) == (True, True, EXPECTED)
    assert judged(b"x").to_members()["statement"] is None


def test_reading_needs_no_extra_and_verifying_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from fable_exec.attest import *\n"
        "data = sys.stdin.buffer.read()\n"
        "print(len(Envelope.from_json(data).signatures))\n"
        "verify_attestation(data, [PublicKey.from_ed25519(bytes(32))], {})\n"
    )
    data = with_signatures(Signature("", b"x")).to_json()
    finished = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True)
    assert finished.stdout == b"1\n"
    assert b"ExtraMissing: this needs cryptography, which is not installed: pip install '.[sign]' in" in finished.stderr

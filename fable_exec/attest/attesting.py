"""`attest`: from the facts of a run to a signed envelope. Pure but for the signer."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any, Protocol

from fable_exec.attest.envelopes import Envelope, Signature, pae
from fable_exec.attest.facts import BoundProof, ExecutionFacts, TreeFacts
from fable_exec.attest.statements import PAYLOAD_TYPE, PREDICATE_TYPE, PROOF_SUBJECT, TREE_SUBJECT, Statement, Subject
from fable_exec.errors import InvalidRequest

__all__ = ["Signer", "attest", "sign"]


class Signer(Protocol):
    """What signs: a `PrivateKey`, or whatever speaks for a key that is kept elsewhere, such as in a KMS or a token."""

    @property
    def keyid(self) -> str:
        """The id that goes into the envelope."""

    def sign(self, message: bytes) -> bytes:
        """The signature of `message`: of Ed25519 its 64 bytes, of ECDSA its DER."""


def attest(
    key: Signer,
    execution: ExecutionFacts,
    tree: TreeFacts,
    *,
    proof: BoundProof | None = None,
    artifacts: Mapping[str, str] | None = None,
) -> Envelope:
    """Sign what ran and what it left: an in-toto Statement in a DSSE envelope, with one signature.

    Args:
        key: signs. Keep it where the run could not reach it.
        execution: what ran.
        tree: what it left.
        proof: the proof document that was bound to both; None where there is none.
        artifacts: SHA-256 of further files that the statement is about, by their names.

    Raises:
        InvalidRequest: the proof is not bound, or names another tree: nothing is signed that would not hold. Or a digest is none.
    """
    subjects = [Subject(TREE_SUBJECT, tree.sha256)]
    if proof is not None:
        _require_bound(proof, tree)
        subjects.append(Subject(PROOF_SUBJECT, proof.document_sha256 or ""))
    subjects += [Subject(name, sha256) for name, sha256 in (artifacts or {}).items()]
    predicate = {
        "bound": proof is not None,
        "execution": execution.to_members(),
        "proof": None if proof is None else _proof_members(proof),
        "tree": tree.to_members(),
    }
    return sign(key, PAYLOAD_TYPE, Statement(tuple(subjects), PREDICATE_TYPE, predicate).to_json())


def sign(key: Signer, payload_type: str, payload: bytes) -> Envelope:
    """An envelope with exactly one signature."""
    return Envelope(payload_type, payload, (Signature(key.keyid, key.sign(pae(payload_type, payload))),))


def _require_bound(proof: BoundProof, tree: TreeFacts) -> None:
    if proof.bound is not True:
        raise InvalidRequest("the proof is not bound to the run, so it cannot be attested as if it were")
    if not hmac.compare_digest((proof.tree_sha256 or "").encode(), tree.sha256.encode()):
        raise InvalidRequest("the proof is bound to another tree than the one to attest")


def _proof_members(proof: BoundProof) -> dict[str, Any]:
    return {
        "axes": {each.axis.value: each.state.value for each in proof.axes},
        "documentSha256": proof.document_sha256,
        "headline": proof.headline,
        "runId": proof.run_id,
    }

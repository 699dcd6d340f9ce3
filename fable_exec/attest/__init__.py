"""Signed statements about runs: what ran, under what, and the tree that it left. Needs the extra `sign` to sign and to verify.

in-toto Statements in DSSE envelopes, which third-party verifiers take as they are. Formats and reasons:
docs/reference/attestations.md.
"""

from __future__ import annotations

from fable_exec.attest.attesting import Signer, attest
from fable_exec.attest.bundles import read_bundle, write_bundle
from fable_exec.attest.envelopes import Envelope, Signature
from fable_exec.attest.facts import BoundProof, ExecutionFacts, RecordedProof, TreeFacts
from fable_exec.attest.links import link, link_file_name
from fable_exec.attest.statements import PREDICATE_TYPE, PROOF_SUBJECT, TREE_SUBJECT, Statement, Subject
from fable_exec.attest.verifying import AttestationResult, Objection, verify_attestation
from fable_exec.keypairs import Algorithm, PrivateKey, PublicKey

__all__ = [
    "PREDICATE_TYPE",
    "PROOF_SUBJECT",
    "TREE_SUBJECT",
    "Algorithm",
    "AttestationResult",
    "BoundProof",
    "Envelope",
    "ExecutionFacts",
    "Objection",
    "PrivateKey",
    "PublicKey",
    "RecordedProof",
    "Signature",
    "Signer",
    "Statement",
    "Subject",
    "TreeFacts",
    "attest",
    "link",
    "link_file_name",
    "read_bundle",
    "verify_attestation",
    "write_bundle",
]

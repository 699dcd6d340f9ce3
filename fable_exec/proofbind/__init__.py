"""A proof document (receipt) that a run left behind: whether it is whole, consistent and of this very run.

Every question about it is an axis (`Axis`) with one of three answers, and what could not be checked never counts as passed. The
format and every rule: docs/reference/proofs.md.
"""

from __future__ import annotations

from fable_exec.proofbind.axes import Axis, AxisResult, AxisState
from fable_exec.proofbind.binding import BindingPolicy, ProofBinding, bind, read_run_id
from fable_exec.proofbind.canonical import canonical_bytes
from fable_exec.proofbind.documents import ProofDocument, parse_document
from fable_exec.proofbind.drift import Drift, DriftCheck
from fable_exec.proofbind.facts import Facts, MalformedFacts, read_facts
from fable_exec.proofbind.gaps import facts_gaps
from fable_exec.proofbind.headline import FABLE_1, Headline, HeadlineRules, derive
from fable_exec.proofbind.integrity import IntegrityResult, verify_integrity
from fable_exec.proofbind.snapshots import read_proof
from fable_exec.proofbind.verifying import VerificationResult, verify

__all__ = [
    "FABLE_1",
    "Axis",
    "AxisResult",
    "AxisState",
    "BindingPolicy",
    "Drift",
    "DriftCheck",
    "Facts",
    "Headline",
    "HeadlineRules",
    "IntegrityResult",
    "MalformedFacts",
    "ProofBinding",
    "ProofDocument",
    "VerificationResult",
    "bind",
    "canonical_bytes",
    "derive",
    "facts_gaps",
    "parse_document",
    "read_facts",
    "read_proof",
    "read_run_id",
    "verify",
    "verify_integrity",
]

"""A proof document (receipt) that a run left behind: whether it is whole, consistent and of this very run.

Every question about it is an axis (`Axis`) with one of three answers, and what could not be checked never counts as passed. The
format and every rule: docs/reference/proofs.md. Names are loaded when they are first used: who signs a verdict, or waits for a
run, needs little of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fable_exec.proofbind.axes import Axis, AxisResult, AxisState
    from fable_exec.proofbind.binding import BindingPolicy, ProofBinding, bind
    from fable_exec.proofbind.canonical import canonical_bytes
    from fable_exec.proofbind.documents import ProofDocument, parse_document
    from fable_exec.proofbind.drift import Drift, DriftCheck
    from fable_exec.proofbind.facts import Facts, MalformedFacts, read_facts
    from fable_exec.proofbind.gaps import facts_gaps
    from fable_exec.proofbind.headline import FABLE_1, Headline, HeadlineRules, derive
    from fable_exec.proofbind.integrity import IntegrityResult, verify_integrity
    from fable_exec.proofbind.runids import read_run_id
    from fable_exec.proofbind.snapshots import read_proof
    from fable_exec.proofbind.verifying import VerificationResult, verify

_ROOMS = {
    "axes": ("Axis", "AxisResult", "AxisState"),
    "binding": ("BindingPolicy", "ProofBinding", "bind"),
    "canonical": ("canonical_bytes",),
    "documents": ("ProofDocument", "parse_document"),
    "drift": ("Drift", "DriftCheck"),
    "facts": ("Facts", "MalformedFacts", "read_facts"),
    "gaps": ("facts_gaps",),
    "headline": ("FABLE_1", "Headline", "HeadlineRules", "derive"),
    "integrity": ("IntegrityResult", "verify_integrity"),
    "runids": ("read_run_id",),
    "snapshots": ("read_proof",),
    "verifying": ("VerificationResult", "verify"),
}  # fmt: skip
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

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


def __getattr__(name: str) -> Any:
    room = _ROOM_OF.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{room}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

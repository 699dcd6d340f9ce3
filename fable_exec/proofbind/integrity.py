"""What a document alone can say for itself: no tree is read, nothing is run but what checks a signature."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

import attrs

from fable_exec.proofbind.axes import Axis, AxisResult, AxisState, Reasoned, passed, result_of, shortcomings
from fable_exec.proofbind.coherence import check_cost, check_execution, check_gates, check_schema
from fable_exec.proofbind.documents import ProofDocument, parse_document
from fable_exec.proofbind.gaps import check_degraded, gap_texts
from fable_exec.proofbind.headline import check_headline
from fable_exec.proofbind.seal import check_hash, check_signature, signed_part
from fable_exec.proofbind.signatures import SignatureResult, SignatureStatus, SignatureVerifier, check_signatures

__all__ = ["IntegrityResult", "verify_integrity"]

_REQUIRED = frozenset({Axis.DOCUMENT, Axis.SCHEMA, Axis.HASH, Axis.HEADLINE})
_UNBROKEN = frozenset({Axis.SIGNATURE, Axis.DEGRADED, Axis.COST})
_TRUE_FALSE_NONE = {AxisState.PASS: True, AxisState.FAIL: False, AxisState.UNCHECKED: None}


@attrs.frozen(kw_only=True)
class IntegrityResult(Reasoned):
    """Whether a document is whole and consistent. It says nothing of who wrote it unless `gpg_ok` is True or `signatures` do."""

    axes: tuple[AxisResult, ...]
    """An answer for each axis that a document alone can be asked; only DOCUMENT where it cannot be read."""
    shortcomings: tuple[AxisResult, ...]
    """Those that stand against `ok`."""
    document: ProofDocument | None
    """As it was read; None where it cannot be."""
    signatures: tuple[SignatureResult, ...] = ()
    """What each kind of signature came to."""
    degraded: tuple[str, ...] = ()
    """The gaps that the document owns up to and that count for its headline, each as a bounded text."""

    @property
    def ok(self) -> bool:
        """Whether it can be believed as far as a document can by itself."""
        return not self.shortcomings

    @property
    def hash_ok(self) -> bool:
        """Whether the hash is that of the document, and all of the document is under it."""
        return result_of(self.axes, Axis.HASH).is_pass

    @property
    def headline_consistent(self) -> bool | None:
        """Whether the headline follows from the facts; None where that is not known."""
        return _TRUE_FALSE_NONE[result_of(self.axes, Axis.HEADLINE).state]

    @property
    def cost_coherent(self) -> bool | None:
        """Whether the cost is possible; None where the document does not tell it."""
        return _TRUE_FALSE_NONE[result_of(self.axes, Axis.COST).state]

    @property
    def gpg_ok(self) -> bool | Literal["n/a"]:
        """Whether the gpg signature counts; "n/a" where there is none, and False where it could not be checked."""
        status = next((each.status for each in self.signatures if each.scheme == "gpg"), SignatureStatus.ABSENT)
        return "n/a" if status is SignatureStatus.ABSENT else status is SignatureStatus.VALID

    @property
    def generator_trusted(self) -> bool:
        """Whether believing the document means trusting whoever wrote it: no gpg signature of a named key stands for it."""
        return self.gpg_ok is not True

    def members(self) -> dict[str, Any]:
        """The verdict and what it was made of, without the single answers, as one JSON object."""
        return {
            "ok": self.ok, "reason": self.reason, "reasons": list(self.reasons), "hash_ok": self.hash_ok, "gpg_ok": self.gpg_ok,
            "generator_trusted": self.generator_trusted, "headline_consistent": self.headline_consistent,
            "degraded": list(self.degraded), "cost_coherent": self.cost_coherent,
        }  # fmt: skip


def verify_integrity(
    document: bytes | Mapping[str, Any], verifiers: Iterable[SignatureVerifier] = (), *, required: Collection[Axis] = ()
) -> IntegrityResult:
    """Judge a document by itself.

    Args:
        document: the bytes of the file, or its members as another reader gave them. Bytes are better: a reader may have dropped
            what makes two documents of one, such as a member named twice.
        verifiers: with the keys whose signatures count. A signature that is there and cannot be checked stands against `ok`.
        required: axes that must pass beside DOCUMENT, SCHEMA, HASH and HEADLINE; with SIGNATURE an unsigned document is not `ok`.

    Returns:
        the answers. Nothing is raised, whatever stands in the document.
    """
    parsed = parse_document(document)
    if isinstance(parsed, AxisResult):
        return IntegrityResult(axes=(parsed,), shortcomings=(parsed,), document=None)
    signatures = check_signatures(signed_part(parsed), verifiers)
    axes = (
        passed(Axis.DOCUMENT),
        check_schema(parsed),
        check_hash(parsed),
        check_signature(signatures),
        check_headline(parsed),
        check_degraded(parsed),
        check_cost(parsed),
        check_execution(parsed),
        check_gates(parsed),
    )
    must_pass = {*_REQUIRED, *required, *([Axis.SIGNATURE] if any(each.is_present for each in signatures) else [])}
    return IntegrityResult(
        axes=axes,
        shortcomings=shortcomings(axes, must_pass, _UNBROKEN),
        document=parsed,
        signatures=signatures,
        degraded=gap_texts(parsed),
    )

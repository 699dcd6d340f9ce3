"""The block `verification`: the hash over the rest of the document, and the signatures. Pure but for what a verifier does.

Nothing covers the block itself, so whatever else stands in it is refused: nobody wrote it who could be held to it.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from fable_exec.proofbind.axes import Axis, AxisResult, failed, passed, unchecked
from fable_exec.proofbind.documents import ProofDocument
from fable_exec.proofbind.signatures.verifying import SCHEMES, SignatureResult, SignatureStatus, SignedDocument

__all__ = ["check_hash", "check_signature", "signed_part"]

_KNOWN_MEMBERS = frozenset({"hash", "algo", "scope", "attestation_kid", *SCHEMES.values()})


def check_hash(document: ProofDocument) -> AxisResult:
    """Whether the hash is that of the document, and everything in the block is what this version of it has."""
    block = document.verification
    recorded = block.get("hash")
    if not isinstance(recorded, str) or not recorded:
        return failed(Axis.HASH, "missing", "the document carries no hash")
    if not hmac.compare_digest(recorded.encode("utf-8", "surrogatepass"), document.canonical_sha256.encode()):
        return failed(
            Axis.HASH, "mismatch", f"the hash is {recorded!a:.80}, and that of the document {document.canonical_sha256}"
        )
    if block.get("algo", "sha256") != "sha256":
        return failed(Axis.HASH, "algorithm", f"the hash is said to be {block['algo']!a:.60}, which is not looked at")
    if block.get("scope", "integrity") != "integrity":
        return failed(Axis.HASH, "scope", f"the hash is said to be of scope {block['scope']!a:.60}, which it is not")
    uncovered = next((name for name in block if name not in _KNOWN_MEMBERS), None)
    if uncovered is not None:
        return failed(Axis.HASH, "uncovered", f"verification.{uncovered!a:.60} is covered by no hash, and nobody reads it")
    return passed(Axis.HASH)


def signed_part(document: ProofDocument) -> SignedDocument:
    """What signatures of the document are about."""
    return SignedDocument(
        canonical=document.canonical,
        canonical_sha256=document.canonical_sha256,
        verification=document.verification,
        run_id=document.run_id,
    )


def check_signature(results: Sequence[SignatureResult]) -> AxisResult:
    """Whether there is a signature, and every one that there is counts."""
    present = [result for result in results if result.is_present]
    if not present:
        return unchecked(Axis.SIGNATURE, "absent", "the document is not signed")
    wanting = sorted((each for each in present if not each.is_valid), key=lambda each: _is_unsupported(each))
    if not wanting:
        return passed(Axis.SIGNATURE)
    answer = unchecked if _is_unsupported(wanting[0]) else failed
    return answer(Axis.SIGNATURE, wanting[0].status.value, wanting[0].detail)


def _is_unsupported(result: SignatureResult) -> bool:
    return result.status is SignatureStatus.UNSUPPORTED

"""Signatures of proof documents, checked against keys that the embedder named and no others.

It says what each signature is; what that means for the document is for `fable_exec.proofbind`.
"""

from __future__ import annotations

from fable_exec.proofbind.signatures.gpg import GpgVerifier, PinnedKey
from fable_exec.proofbind.signatures.jwt import JwtVerifier
from fable_exec.proofbind.signatures.verifying import (
    SCHEMES,
    SignatureResult,
    SignatureStatus,
    SignatureVerifier,
    SignedDocument,
    check_signatures,
)

__all__ = [
    "SCHEMES",
    "GpgVerifier",
    "JwtVerifier",
    "PinnedKey",
    "SignatureResult",
    "SignatureStatus",
    "SignatureVerifier",
    "SignedDocument",
    "check_signatures",
]

"""What a signature of a proof document was found to be, and who may find it. Values and a protocol. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Protocol

import attrs

__all__ = ["SCHEMES", "SignatureResult", "SignatureStatus", "SignatureVerifier", "SignedDocument", "check_signatures", "text_of"]

SCHEMES: Mapping[str, str] = {"gpg": "gpg_signature", "jwt": "attestation"}
"""The kinds of signature a document can carry, and the member of its `verification` block that holds each."""


class SignatureStatus(Enum):
    """What is known about one signature. Only VALID counts as one; ABSENT alone says that there is none."""

    VALID = "valid"
    """Made by a key that the embedder named, over these very bytes, and the key is neither expired nor revoked."""
    EXPIRED = "expired"
    """By a key, or of a validity, that has run out."""
    REVOKED = "revoked"
    """By a key that was revoked."""
    UNKNOWN_KEY = "unknown-key"
    """By a key that the embedder did not name."""
    BAD = "bad"
    """Not a signature of these bytes, not of its form, or more than one."""
    ABSENT = "absent"
    """The document carries none of this kind."""
    UNSUPPORTED = "unsupported"
    """There is one, and it could not be checked: no keys were named, or what checks it is missing or did not answer."""


@attrs.frozen(kw_only=True)
class SignedDocument:
    """What a signature is checked against."""

    canonical: bytes
    """The bytes that are signed: the document without its `verification` block, in its canonical form."""
    canonical_sha256: str
    """Their digest, recomputed and not read from the document."""
    verification: Mapping[str, Any]
    """The `verification` block as it stands in the document. Nothing in it is covered by the hash."""
    run_id: str = ""
    """The run that the document says it is of, "" when it does not say."""


@attrs.frozen(kw_only=True)
class SignatureResult:
    """What one kind of signature came to."""

    scheme: str
    """One of `SCHEMES`."""
    status: SignatureStatus
    reason: str = ""
    """A stable word for a program, "" when VALID or ABSENT (docs/reference/proofs.md)."""
    detail: str = ""
    """One bounded sentence for a person, "" when VALID or ABSENT."""
    fingerprint: str = ""
    """The key: a primary key's fingerprint in upper-case hexadecimal (gpg), the thumbprint of RFC 7638 (jwt). "" when unknown.
    Unless VALID it is what the signature claims."""
    role: str = ""
    """What the embedder calls the key, "" when it has no name or is unknown."""
    signed_at: int | None = None
    """Seconds since 1970, as the signer says; None when it says nothing."""

    @property
    def is_valid(self) -> bool:
        """Whether it counts as a signature."""
        return self.status is SignatureStatus.VALID

    @property
    def is_present(self) -> bool:
        """Whether the document carries one, whatever it is worth."""
        return self.status is not SignatureStatus.ABSENT


class SignatureVerifier(Protocol):
    """Checks one kind of signature against keys that the embedder named."""

    @property
    def scheme(self) -> str:
        """The kind, one of `SCHEMES`."""

    def verify(self, document: SignedDocument) -> SignatureResult:
        """What the document's signature of this kind is. Raises nothing for whatever stands in the document."""


def check_signatures(document: SignedDocument, verifiers: Iterable[SignatureVerifier] = ()) -> tuple[SignatureResult, ...]:
    """What every kind of signature came to, in the order of `SCHEMES`.

    One that is present without a verifier for it is UNSUPPORTED, never left out. Of several verifiers for one kind the first
    that is VALID speaks, or else the first.
    """
    given = list(verifiers)
    return tuple(_checked(scheme, document, [each for each in given if each.scheme == scheme]) for scheme in SCHEMES)


def _checked(scheme: str, document: SignedDocument, verifiers: list[SignatureVerifier]) -> SignatureResult:
    if not _is_present(document.verification.get(SCHEMES[scheme])):
        return SignatureResult(scheme=scheme, status=SignatureStatus.ABSENT)
    results = [verifier.verify(document) for verifier in verifiers]
    if not results:
        return SignatureResult(
            scheme=scheme, status=SignatureStatus.UNSUPPORTED, reason="no-keys",
            detail=f"the document carries a {scheme} signature, and no keys were named to check it with",
        )  # fmt: skip
    return next((each for each in results if each.is_valid), results[0])


def _is_present(value: Any) -> bool:
    # null and "" say that there is none; anything else claims that there is.
    return value is not None and value != ""


def text_of(scheme: str, document: SignedDocument) -> str | SignatureResult:
    """The signature as text, or the result when there is none or it is no text."""
    value = document.verification.get(SCHEMES[scheme])
    if not _is_present(value):
        return SignatureResult(scheme=scheme, status=SignatureStatus.ABSENT)
    if not isinstance(value, str):
        return SignatureResult(
            scheme=scheme, status=SignatureStatus.BAD, reason="not-text", detail=f"the {scheme} signature is no text"
        )
    return value

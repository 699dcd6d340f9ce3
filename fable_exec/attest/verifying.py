"""`verify_attestation`: signatures first, over the decoded bytes; then those same bytes are read and compared."""

from __future__ import annotations

import hmac
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import attrs

from fable_exec.attest.envelopes import Envelope
from fable_exec.attest.statements import PAYLOAD_TYPE, PREDICATE_TYPE, Statement
from fable_exec.errors import InvalidRequest, StateUnreadable
from fable_exec.keypairs.public import PublicKey
from fable_exec.outcome import display_line
from fable_exec.sha256text import is_sha256

__all__ = ["AttestationResult", "Objection", "verify_attestation"]

_MAX_NAME_CHARACTERS = 120


@attrs.frozen
class Objection:
    """One thing that stands against an attestation."""

    reason: str
    """A stable word (docs/reference/attestations.md)."""
    detail: str
    """One bounded sentence for a person."""


_DUPLICATE = Objection("duplicate-signature", "two signatures are of one key")


@attrs.frozen(kw_only=True)
class AttestationResult:
    """Whether an attestation is by keys that count and about what was expected."""

    objections: tuple[Objection, ...]
    """All that stands against it. What comes after a signature is only looked at once enough signatures hold."""
    signers: tuple[PublicKey, ...] = ()
    """The keys whose signatures hold."""
    statement: Statement | None = None
    """What was signed; None while that is not proved, so that nobody acts on it."""

    @property
    def ok(self) -> bool:
        """Whether nothing stands against it."""
        return not self.objections

    @property
    def reasons(self) -> tuple[str, ...]:
        """The words of all objections."""
        return tuple(each.reason for each in self.objections)

    @property
    def bound(self) -> bool:
        """Whether it is `ok` and says that a proof document was bound to the run."""
        return self.ok and self.statement is not None and self.statement.predicate.get("bound") is True

    def to_members(self) -> dict[str, Any]:
        """All of it as JSON types."""
        statement = None
        if self.statement is not None:
            statement = {
                "predicate_type": self.statement.predicate_type,
                "subjects": {each.name: each.sha256 for each in self.statement.subjects},
                "predicate": dict(self.statement.predicate),
            }
        return {
            "ok": self.ok, "bound": self.bound, "reasons": list(self.reasons),
            "details": [each.detail for each in self.objections], "signers": [key.keyid for key in self.signers],
            "statement": statement,
        }  # fmt: skip


def verify_attestation(
    envelope: bytes | Envelope,
    keys: Iterable[PublicKey],
    subjects: Mapping[str, str] | None,
    *,
    predicate_type: str = PREDICATE_TYPE,
    threshold: int = 1,
) -> AttestationResult:
    """Judge an attestation. Nothing is raised for whatever stands in it.

    Args:
        envelope: as it was written, or as it was read.
        keys: whose signatures count. A key that is given twice counts once.
        subjects: the SHA-256 that each name must have in the statement. None or empty leaves the question open, and what is not
            checked is never `ok`.
        predicate_type: the one kind of claim that is expected.
        threshold: how many of the keys must have signed.

    Raises:
        InvalidRequest: there are fewer keys than the threshold, or an expected digest is none.
        ExtraMissing: the extra `sign` is not installed.
    """
    named = tuple(dict.fromkeys(keys))
    if not 1 <= threshold <= len(named):
        raise InvalidRequest(f"{threshold} signatures cannot be had from {len(named)} keys")
    for name, sha256 in (subjects or {}).items():
        if not is_sha256(sha256):
            raise InvalidRequest(f"the digest of {name!a:.80} is no SHA-256 of 64 lower-case hexadecimal digits")
    try:
        found = envelope if isinstance(envelope, Envelope) else Envelope.from_json(envelope)
    except StateUnreadable as error:
        return AttestationResult(objections=(Objection(f"envelope-{error.reason}", str(error)),))
    signers, against = _signers(found, named)
    if len(signers) >= threshold:  # then a stranger may have signed as well
        against = [each for each in against if each.reason != "unknown-key"]
    else:
        against.append(Objection("too-few-signatures", f"{len(signers)} of the keys signed it, and {threshold} must have"))
    if against:
        return AttestationResult(objections=tuple(against), signers=signers)
    return _read(found, signers, subjects or {}, predicate_type)


def _signers(envelope: Envelope, keys: Collection[PublicKey]) -> tuple[tuple[PublicKey, ...], list[Objection]]:
    """The keys whose signatures hold, and what stands against the envelope."""
    against = []
    if envelope.payload_type != PAYLOAD_TYPE:
        against.append(Objection("payload-type", f"it holds {_short(envelope.payload_type)}, not {PAYLOAD_TYPE}"))
    signers: list[PublicKey] = []
    for signature in envelope.signatures:
        candidates = [key for key in keys if not signature.keyid or signature.keyid in key.keyids]
        holding = next((key for key in candidates if key.verify(signature.value, envelope.signed_bytes)), None)
        if holding is not None and holding in signers:
            against.append(_DUPLICATE)
        elif holding is not None:
            signers.append(holding)
        elif candidates:
            against.append(
                Objection("bad-signature", f"the signature of {_short(signature.keyid) or 'no named key'} does not hold")
            )
        else:
            against.append(Objection("unknown-key", f"{_short(signature.keyid)} is none of the keys"))
    return tuple(signers), list(dict.fromkeys(against))


def _read(
    envelope: Envelope, signers: tuple[PublicKey, ...], subjects: Mapping[str, str], predicate_type: str
) -> AttestationResult:
    try:
        statement = Statement.from_json(envelope.payload)
    except StateUnreadable as error:
        return AttestationResult(objections=(Objection(f"statement-{error.reason}", str(error)),), signers=signers)
    against = []
    if statement.predicate_type != predicate_type:
        against.append(Objection("predicate-type", f"it is a {_short(statement.predicate_type)}, not a {_short(predicate_type)}"))
    against += _against_subjects(statement, subjects)
    return AttestationResult(objections=tuple(against), signers=signers, statement=statement)


def _against_subjects(statement: Statement, expected: Mapping[str, str]) -> list[Objection]:
    named: dict[str, str] = {}
    against = []
    for subject in statement.subjects:
        if subject.name in named:
            against.append(Objection("subject-duplicate", f"it names {_short(subject.name)} twice"))
        named[subject.name] = subject.sha256
    if not expected:
        against.append(Objection("subject-unchecked", "nothing was named that it should be about"))
    for name, sha256 in expected.items():
        if name not in named:
            against.append(Objection("subject-missing", f"it says nothing about {_short(name)}"))
        elif not hmac.compare_digest(named[name], sha256):
            against.append(Objection("subject-differs", f"it is about another {_short(name)}"))
    return against


def _short(text: str) -> str:
    return display_line(text[:_MAX_NAME_CHARACTERS])

"""What gpg said of a signature, read from the lines of --status-fd (doc/DETAILS of GnuPG). Pure.

Its exit status alone says nothing: it is 0 for keys that have expired or were revoked, and for any key that is in the home.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping

import attrs

from fable_exec.proofbind.signatures.verifying import SignatureResult, SignatureStatus

__all__ = ["SCHEME", "imported_fingerprints", "judge"]

SCHEME = "gpg"
_PREFIX = "[GNUPG:] "
_OF_A_SIGNATURE = ("GOODSIG", "BADSIG", "ERRSIG", "EXPSIG", "EXPKEYSIG", "REVKEYSIG")
_HARMLESS = frozenset(
    "NEWSIG KEY_CONSIDERED SIG_ID GOODSIG VALIDSIG KEYEXPIRED SIG_SUBPACKET PROGRESS VERIFICATION_COMPLIANCE_MODE"
    " TRUST_UNDEFINED TRUST_NEVER TRUST_MARGINAL TRUST_FULLY TRUST_ULTIMATE"
    " NOTATION_NAME NOTATION_FLAGS NOTATION_DATA POLICY_URL".split()
)
"""All that is said of one good detached signature. KEYEXPIRED is said of subkeys too that signed nothing; EXPKEYSIG is not."""
_NO_PUBLIC_KEY, _UNKNOWN_ALGORITHM = "9", "4"
_WEAK_DIGESTS = frozenset({"1", "2", "3"})
"""MD5, SHA-1 and RIPEMD-160 by their numbers in RFC 9580."""
_OVER_BYTES = "00"
"""The class of a signature over bytes as they are; 01 is over lines of text, whose ends may change."""


@attrs.frozen
class _ValidSig:
    """The fields of VALIDSIG that count."""

    signed_at: str
    digest: str
    kind: str
    primary: str

    @classmethod
    def of(cls, fields: list[str]) -> _ValidSig | None:
        return cls(fields[2], fields[7], fields[8], fields[9].upper()) if len(fields) >= 10 else None


def imported_fingerprints(status: str) -> frozenset[str]:
    """The primary fingerprints of all keys that an import took."""
    return frozenset(fields[1].upper() for word, fields in _lines(status) if word == "IMPORT_OK" and len(fields) == 2)


def judge(status: str, exit_status: int, pins: Mapping[str, str]) -> SignatureResult:
    """What the signature is.

    Args:
        status: all lines of one `gpg --verify` of a detached signature.
        pins: what the embedder calls each key, by its primary fingerprint.
    """
    lines = list(_lines(status))
    words = collections.Counter(word for word, _ in lines)
    found = _objection(lines, words)
    if found is not None:
        return found
    valid = next((_ValidSig.of(fields) for word, fields in lines if word == "VALIDSIG"), None)
    if valid is None or words["VALIDSIG"] != 1 or words["GOODSIG"] != 1 or exit_status != 0:
        return _bad("malformed", "gpg does not call it one valid signature")
    return _of_valid(valid, pins)


def _objection(lines: list[tuple[str, list[str]]], words: Mapping[str, int]) -> SignatureResult | None:
    """The first thing that gpg said against it, or None."""
    if words["NEWSIG"] > 1 or sum(words[word] for word in _OF_A_SIGNATURE) > 1:
        return _bad("several-signatures", "there is more than one signature")
    if words["ERRSIG"]:
        return _unverifiable(next(fields for word, fields in lines if word == "ERRSIG"))
    if words["BADSIG"]:
        return _bad("not-of-this-document", "it is a signature of other bytes")
    primary = next((valid.primary for word, fields in lines if word == "VALIDSIG" and (valid := _ValidSig.of(fields))), "")
    if words["REVKEYSIG"] or words["KEYREVOKED"]:
        return _result(SignatureStatus.REVOKED, "key-revoked", f"the key {primary} was revoked", primary)
    if words["EXPKEYSIG"]:
        return _result(SignatureStatus.EXPIRED, "key-expired", f"the key {primary} has expired", primary)
    if words["EXPSIG"]:
        return _result(SignatureStatus.EXPIRED, "signature-expired", "the signature has expired", primary)
    odd = next((word for word, _ in lines if word not in _HARMLESS), "")
    return _bad("malformed", f"it is not one detached signature (gpg says {odd[:40]})") if odd else None


def _of_valid(valid: _ValidSig, pins: Mapping[str, str]) -> SignatureResult:
    if valid.kind != _OVER_BYTES:
        return _bad("malformed", f"it is of class {valid.kind[:4]}, not one over bytes as they are")
    if valid.digest in _WEAK_DIGESTS:
        return _bad("weak-digest", "it is over a digest that can be forged (MD5, SHA-1 or RIPEMD-160)")
    if valid.primary not in pins:
        return _result(SignatureStatus.UNKNOWN_KEY, "key-not-pinned", f"the key {valid.primary} is not pinned", valid.primary)
    signed_at = int(valid.signed_at) if valid.signed_at.isdecimal() else None  # or a date, for which no build of today is set up
    return SignatureResult(
        scheme=SCHEME, status=SignatureStatus.VALID, fingerprint=valid.primary, role=pins[valid.primary], signed_at=signed_at
    )


def _unverifiable(fields: list[str]) -> SignatureResult:
    """ERRSIG: key id, algorithms, class, time, why (a number), and in newer versions the fingerprint of the signing key."""
    why = fields[5] if len(fields) > 5 else ""
    key = fields[6] if len(fields) > 6 and fields[6] != "-" else fields[0] if fields else ""
    key = key[:64].upper()
    if why == _NO_PUBLIC_KEY:
        return _result(SignatureStatus.UNKNOWN_KEY, "key-not-pinned", f"no pinned key is {key}", key)
    if why == _UNKNOWN_ALGORITHM:
        return _result(SignatureStatus.UNSUPPORTED, "unknown-algorithm", "gpg does not know its algorithm", key)
    return _bad("malformed", "gpg cannot verify it")


def _bad(reason: str, detail: str) -> SignatureResult:
    return _result(SignatureStatus.BAD, reason, detail, "")


def _result(status: SignatureStatus, reason: str, detail: str, fingerprint: str) -> SignatureResult:
    return SignatureResult(scheme=SCHEME, status=status, reason=reason, detail=detail, fingerprint=fingerprint)


def _lines(status: str) -> Iterable[tuple[str, list[str]]]:
    """(word, its fields) of each line."""
    for line in status.split("\n"):
        if line.startswith(_PREFIX):
            word, *fields = line.removeprefix(_PREFIX).split(" ")
            yield word, fields

"""Attestations of receipts: compact JWTs signed with Ed25519 by a server that received the document.

One algorithm, and it is not read from the token but demanded of it (RFC 8725): `alg` must be EdDSA. A key is chosen by `kid`
among those that the embedder named, and a key is called by its RFC 7638 thumbprint and nothing else.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import time
from collections.abc import Mapping
from typing import Any, Self

import attrs

from fable_exec.errors import ExtraMissing, InvalidRequest
from fable_exec.keypairs import PublicKey
from fable_exec.proofbind.signatures.verifying import SignatureResult, SignatureStatus, SignedDocument, text_of
from fable_exec.strictjson import JsonFault, parse_strict

__all__ = ["JwtVerifier"]

SCHEME = "jwt"
_MAX_TOKEN_CHARACTERS = 16 * 1024
_MAX_KEYS = 1000
_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")


class _Refused(Exception):
    """Why a token is no good."""

    def __init__(self, status: SignatureStatus, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.reason = reason


def _kept(given: Mapping[str, PublicKey]) -> Mapping[str, PublicKey]:
    """What the embedder does to its own mapping later pins no other key."""
    return dict(given)


@attrs.frozen(kw_only=True)
class JwtVerifier:
    """Checks `verification.attestation` against the Ed25519 keys of a set.

    Args:
        keys: the keys that count, by their thumbprints. With none, every token is of an unknown key.
        role: what the embedder calls whoever holds them; results carry it.
        at: the time to judge by, in seconds since 1970; None is now.
    """

    keys: Mapping[str, PublicKey] = attrs.field(converter=_kept)
    role: str = ""
    at: int | None = None

    @classmethod
    def from_jwks(cls, document: bytes, *, role: str = "", at: int | None = None) -> Self:
        """One with the keys of a JSON Web Key Set (RFC 7517).

        Keys of other kinds or uses are left out, as the RFC says, and so is one whose `kid` is not its thumbprint: nothing
        could choose it.

        Raises:
            InvalidRequest: it is no key set.
        """
        try:
            found = parse_strict(document)
        except JsonFault as fault:
            raise InvalidRequest(f"the key set cannot be read: {fault}") from fault
        rows = found.get("keys") if isinstance(found, dict) else None
        if not isinstance(rows, list) or len(rows) > _MAX_KEYS:
            raise InvalidRequest(f'a key set is an object whose "keys" is a list, of {_MAX_KEYS} at most')
        keys = (key for row in rows if (key := _key_of(row)) is not None)
        return cls(keys={key.thumbprint: key for key in keys}, role=role, at=at)

    @property
    def scheme(self) -> str:
        """`jwt`."""
        return SCHEME

    def verify(self, document: SignedDocument) -> SignatureResult:
        """What the token is: VALID only if it is by a key that counts, and names this document's recomputed digest and its run.

        UNSUPPORTED where the extra `sign` is not installed.
        """
        token = text_of(SCHEME, document)
        if isinstance(token, SignatureResult):
            return token
        kid = ""
        try:
            signing_input, header, payload, signature = _parts(token)
            kid = _kid_of(header)
            claims = self._verified(kid, signing_input, payload, signature)
            self._check(claims, document)
        except _Refused as error:
            return SignatureResult(
                scheme=SCHEME, status=error.status, reason=error.reason, detail=str(error), fingerprint=kid, role=self._role(kid)
            )  # fmt: skip
        return SignatureResult(
            scheme=SCHEME, status=SignatureStatus.VALID, fingerprint=kid, role=self.role, signed_at=int(claims["iat"])
        )

    def _role(self, kid: str) -> str:
        return self.role if kid in self.keys else ""

    def _verified(self, kid: str, signing_input: bytes, payload: bytes, signature: bytes) -> dict[str, Any]:
        """The claims, read only after the signature over them was verified."""
        key = self.keys.get(kid)
        if key is None:
            raise _Refused(SignatureStatus.UNKNOWN_KEY, "key-not-pinned", "its key is not in the key set")
        try:
            is_valid = key.verify(signature, signing_input)
        except ExtraMissing as error:
            raise _Refused(SignatureStatus.UNSUPPORTED, "cryptography-missing", str(error)) from error
        if not is_valid:
            raise _Refused(SignatureStatus.BAD, "not-of-this-token", "its signature is not by its key")
        return _object(payload, "claims")

    def _check(self, claims: Mapping[str, Any], document: SignedDocument) -> None:
        _check_forms(claims)
        named = claims["receipt_sha256"]
        if not hmac.compare_digest(named.encode("utf-8", "replace"), document.canonical_sha256.encode()):
            raise _Refused(SignatureStatus.BAD, "not-of-this-document", "the token names the digest of another document")
        if claims["run_id"] != document.run_id:
            raise _Refused(SignatureStatus.BAD, "run-id-differs", "the token names another run than the document")
        now = time.time() if self.at is None else self.at
        if "exp" in claims and claims["exp"] <= now:
            raise _Refused(SignatureStatus.EXPIRED, "signature-expired", "the token has expired")
        if "nbf" in claims and claims["nbf"] > now:
            raise _Refused(SignatureStatus.BAD, "not-yet-valid", "the token is not valid yet")


def _malformed(sentence: str) -> _Refused:
    return _Refused(SignatureStatus.BAD, "malformed", sentence)


def _parts(token: str) -> tuple[bytes, dict[str, Any], bytes, bytes]:
    """(signing input, header, payload, signature) of a compact JWS."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > _MAX_TOKEN_CHARACTERS:
        raise _malformed("it is no compact token of three parts")
    header, payload, signature = (_decoded(part) for part in parts)
    return f"{parts[0]}.{parts[1]}".encode(), _object(header, "header"), payload, signature


def _decoded(text: str) -> bytes:
    """The bytes of base64url without padding, written in the one way there is."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) if _BASE64URL.fullmatch(text) else None
    except (binascii.Error, ValueError):
        raw = None
    if raw is None or base64.urlsafe_b64encode(raw).decode().rstrip("=") != text:
        raise _malformed("a part of it is not base64url")
    return raw


def _object(data: bytes, name: str) -> dict[str, Any]:
    try:
        found = parse_strict(data)
    except JsonFault:
        found = None
    if not isinstance(found, dict):
        raise _malformed(f"its {name} is no JSON object, or one that could be read in two ways")
    return found


def _kid_of(header: Mapping[str, Any]) -> str:
    """The key that it names, once the header is one of ours."""
    if header.get("alg") != "EdDSA":
        raise _Refused(SignatureStatus.BAD, "wrong-algorithm", "its algorithm is not EdDSA")
    if "crit" in header or header.get("b64", True) is not True:
        raise _malformed("it demands extensions, and none is known here")
    if header.get("typ", "JWT") != "JWT":
        raise _malformed("its type is not JWT")
    kid = header.get("kid")
    if not isinstance(kid, str) or not 0 < len(kid) <= 128 or not _BASE64URL.fullmatch(kid):
        raise _malformed("it names no key")
    return kid


def _check_forms(claims: Mapping[str, Any]) -> None:
    """That the claims are there and of their types."""
    for name in ("job_id", "run_id", "receipt_sha256"):
        if not isinstance(claims.get(name), str):
            raise _malformed(f"its claim {name} is missing or no text")
    for name in ("iat", *({"exp", "nbf"} & claims.keys())):
        value = claims.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _malformed(f"its claim {name} is missing or no time")
    for name in ("sub", "iss"):
        if not isinstance(claims.get(name, ""), str):
            raise _malformed(f"its claim {name} is no text")


def _key_of(row: Any) -> PublicKey | None:
    """The Ed25519 key of one row of a key set; None for a row that is nothing of the kind."""
    if not isinstance(row, dict) or (row.get("kty"), row.get("crv")) != ("OKP", "Ed25519"):
        return None
    if row.get("alg", "EdDSA") != "EdDSA" or row.get("use", "sig") != "sig" or not isinstance(row.get("x"), str):
        return None
    try:
        key = PublicKey.from_ed25519(_decoded(row["x"]))
    except (_Refused, ValueError):
        return None
    return key if row.get("kid") == key.thumbprint else None

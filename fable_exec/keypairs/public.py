"""Public keys: what they are called, how they are written, and whether a signature is theirs."""

from __future__ import annotations

import base64
import hashlib
import json
from enum import Enum
from typing import Self

import attrs

from fable_exec.errors import ExtraMissing, StateUnreadable

__all__ = ["MAX_PEM_BYTES", "Algorithm", "PublicKey", "needs_cryptography", "unreadable_key"]

MAX_PEM_BYTES = 16 * 1024
_FOREIGN = "it is neither an Ed25519 nor a P-256 key in PEM"


class Algorithm(Enum):
    """What a key signs with."""

    ED25519 = "ed25519"
    P256 = "p256"
    """ECDSA over NIST P-256 with SHA-256, the signature in DER."""


_SCHEMES = {Algorithm.ED25519: ("ed25519", "ed25519"), Algorithm.P256: ("ecdsa", "ecdsa-sha2-nistp256")}
"""The key type and the scheme that securesystemslib calls each by."""
_ED25519_PREFIX = bytes.fromhex("302a300506032b6570032100")
"""What stands before the 32 bytes of an Ed25519 key in a SubjectPublicKeyInfo (RFC 8410)."""


def needs_cryptography(error: ImportError) -> ExtraMissing:
    """The error for a failed import: where the package is not there it says which extra brings it, else it tells why."""
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "cryptography":
        return ExtraMissing.of("sign", "cryptography")
    return ExtraMissing(f"cryptography is installed and cannot be loaded: {error}", extra="sign")


def unreadable_key(name: str, what: str, reason: str = "foreign") -> StateUnreadable:
    """The error for a key that cannot be used."""
    return StateUnreadable(f"the key {name} cannot be used: {what}", reason=reason, path=name)


@attrs.frozen
class PublicKey:
    """A key that verifies. Two are equal when they are the same key, whatever they are called."""

    algorithm: Algorithm
    der: bytes = attrs.field(repr=False)
    """Its SubjectPublicKeyInfo."""
    alias: str = attrs.field(default="", eq=False)
    """Another id by which signatures may name it."""

    @classmethod
    def from_pem(cls, pem: bytes, *, name: str = "", alias: str = "") -> Self:
        """The key in a PEM text.

        Args:
            name: of the file, for messages.
            alias: an id that its signatures carry, where that is none of `keyids`.

        Raises:
            StateUnreadable: it holds no Ed25519 or P-256 public key. ExtraMissing: the extra `sign` is not installed.
        """
        try:
            from cryptography.exceptions import UnsupportedAlgorithm
            from cryptography.hazmat.primitives.serialization import load_pem_public_key
        except ImportError as error:
            raise needs_cryptography(error) from error
        try:
            return cls.of(load_pem_public_key(pem[:MAX_PEM_BYTES]), name=name, alias=alias)
        except (ValueError, UnsupportedAlgorithm):
            raise unreadable_key(name, _FOREIGN) from None

    @classmethod
    def of(cls, key: object, *, name: str = "", alias: str = "") -> Self:
        """A public key of `cryptography`. Raises StateUnreadable for one of another algorithm."""
        from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        if isinstance(key, Ed25519PublicKey):
            algorithm = Algorithm.ED25519
        elif isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
            algorithm = Algorithm.P256
        else:
            raise unreadable_key(name, _FOREIGN)
        return cls(algorithm, key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo), alias)

    @classmethod
    def from_ed25519(cls, raw: bytes) -> Self:
        """The Ed25519 key of these 32 bytes. Raises ValueError for another number of them."""
        if len(raw) != 32:
            raise ValueError(f"an Ed25519 key has 32 bytes, not {len(raw)}")
        return cls(Algorithm.ED25519, _ED25519_PREFIX + raw)

    @property
    def pem(self) -> str:
        """It as PEM, as openssl writes it."""
        text = base64.b64encode(self.der).decode()
        lines = [text[start : start + 64] for start in range(0, len(text), 64)]
        return "\n".join(["-----BEGIN PUBLIC KEY-----", *lines, "-----END PUBLIC KEY-----", ""])

    @property
    def keyid(self) -> str:
        """What securesystemslib calls it: SHA-256 of its description in that library's canonical JSON."""
        keytype, scheme = _SCHEMES[self.algorithm]
        public = self.der[len(_ED25519_PREFIX) :].hex() if self.algorithm is Algorithm.ED25519 else self.pem
        # That form escapes neither the newlines of a PEM nor anything else that stands in these texts.
        text = f'{{"keytype":"{keytype}","keyval":{{"public":"{public}"}},"scheme":"{scheme}"}}'
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def keyids(self) -> frozenset[str]:
        """Every id that means it: of securesystemslib, SHA-256 of its PEM or of its DER, as other tools have it, its alias."""
        digests = (hashlib.sha256(form).hexdigest() for form in (self.pem.encode(), self.der))
        return frozenset({self.keyid, *digests, *([self.alias] if self.alias else ())})

    @property
    def thumbprint(self) -> str:
        """The thumbprint of RFC 7638 of an Ed25519 key."""
        if self.algorithm is not Algorithm.ED25519:
            raise ValueError("only Ed25519 keys have one here")
        x = base64.urlsafe_b64encode(self.der[len(_ED25519_PREFIX) :]).decode().rstrip("=")
        text = json.dumps({"crv": "Ed25519", "kty": "OKP", "x": x}, sort_keys=True, separators=(",", ":"))
        return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")

    def verify(self, signature: bytes, message: bytes) -> bool:
        """Whether `signature` is this key's over `message`. Raises ExtraMissing: the extra `sign` is not installed."""
        try:
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
            from cryptography.hazmat.primitives.hashes import SHA256
            from cryptography.hazmat.primitives.serialization import load_der_public_key
        except ImportError as error:
            raise needs_cryptography(error) from error
        try:
            key = load_der_public_key(self.der)
            if isinstance(key, Ed25519PublicKey):
                key.verify(signature, message)
            elif isinstance(key, EllipticCurvePublicKey):
                key.verify(signature, message, ECDSA(SHA256()))
            else:
                return False
        except (InvalidSignature, ValueError):  # bytes that are no point of the curve, or no signature
            return False
        return True

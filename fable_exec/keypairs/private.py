"""Private keys: made, kept in files of mode 0600 and loaded from nothing else, and used to sign."""

from __future__ import annotations

import errno
import os
from typing import Any, Self

import attrs

from fable_exec.keypairs.public import MAX_PEM_BYTES, Algorithm, PublicKey, needs_cryptography, unreadable_key
from fable_exec.privatefiles import NotPrivate, open_private

__all__ = ["PrivateKey"]

_MODE = 0o600
_FOREIGN = "it is neither an Ed25519 nor a P-256 private key in PEM without a passphrase"


@attrs.frozen(eq=False)
class PrivateKey:
    """A key that signs. Its secret appears in no `repr` and no message."""

    public: PublicKey
    """What its signatures are verified with."""
    _secret: Any = attrs.field(repr=False)
    """The key of `cryptography`."""

    @property
    def keyid(self) -> str:
        """The id that goes with its signatures."""
        return self.public.keyid

    @classmethod
    def generate(cls, algorithm: Algorithm | str = Algorithm.ED25519) -> Self:
        """A new key.

        Args:
            algorithm: Ed25519, or P-256 for what verifies nothing else, such as sigstore.

        Raises:
            ExtraMissing: the extra `sign` is not installed.
        """
        try:
            from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        except ImportError as error:
            raise needs_cryptography(error) from error
        if Algorithm(algorithm) is Algorithm.ED25519:
            return cls._of(Ed25519PrivateKey.generate(), "")
        return cls._of(generate_private_key(SECP256R1()), "")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The key in a file, as `save` or `openssl genpkey` wrote it.

        Raises:
            StateUnreadable: the file is `not-private` (a link, another user's, or not of mode 0600), or `foreign`.
            ExtraMissing: the extra `sign` is not installed.
            OSError: the kernel's answer, such as FileNotFoundError.
        """
        name = os.fsdecode(path)
        try:
            from cryptography.exceptions import UnsupportedAlgorithm
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ImportError as error:
            raise needs_cryptography(error) from error
        pem = _read_private(name)
        try:
            return cls._of(load_pem_private_key(pem, None), name)
        except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it is encrypted
            raise unreadable_key(name, _FOREIGN) from None

    @classmethod
    def _of(cls, secret: Any, name: str) -> Self:
        return cls(PublicKey.of(secret.public_key(), name=name), secret)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it into a new file of mode 0600, as PKCS #8 in PEM, synced. Raises OSError, such as FileExistsError."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        pem = self._secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        name = os.fsdecode(path)
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, _MODE)  # the umask may have taken from it
                file.write(pem)
                file.flush()
                os.fsync(descriptor)
        except BaseException:
            os.unlink(name)  # half a key is in the way of a whole one
            raise

    def sign(self, message: bytes) -> bytes:
        """The signature of `message`."""
        if self.public.algorithm is Algorithm.ED25519:
            signature: bytes = self._secret.sign(message)
            return signature
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.hashes import SHA256

        of_curve: bytes = self._secret.sign(message, ECDSA(SHA256()))
        return of_curve


def _read_private(name: str) -> bytes:
    try:
        descriptor = open_private(name, os.O_RDONLY)
    except NotPrivate as error:
        raise unreadable_key(name, str(error.strerror), "not-private") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise unreadable_key(name, "it is a symbolic link", "not-private") from None
        raise
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MAX_PEM_BYTES)

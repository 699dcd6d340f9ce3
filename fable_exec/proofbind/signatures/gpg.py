"""Detached OpenPGP signatures, checked by gpg in a home that holds nothing but the keys the embedder named.

The user's own keyring, options and trust are never read, no agent is started, and the home is gone afterwards.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs

from fable_exec.errors import InvalidRequest
from fable_exec.proofbind.programs import SYSTEM_PATH
from fable_exec.proofbind.signatures.gpgstatus import SCHEME, imported_fingerprints, judge
from fable_exec.proofbind.signatures.verifying import SignatureResult, SignatureStatus, SignedDocument, text_of

__all__ = ["GpgVerifier", "PinnedKey"]

_MAX_SIGNATURE_CHARACTERS = 64 * 1024
_ARMOR = "-----BEGIN PGP SIGNATURE-----"
_HEX = frozenset("0123456789ABCDEF")
_OPTIONS = (
    "--batch", "--no-tty", "--no-options", "--no-autostart", "--disable-dirmngr", "--no-auto-key-retrieve",
    "--no-auto-key-locate", "--no-auto-check-trustdb", "--trust-model", "always", "--status-fd", "1",
)  # fmt: skip


def _fingerprint(text: str) -> str:
    fingerprint = "".join(text.split()).upper()
    if fingerprint and not (len(fingerprint) in (40, 64) and _HEX.issuperset(fingerprint)):
        raise InvalidRequest(f"a fingerprint has 40 or 64 hexadecimal digits, not {text!a:.80}; short key ids can be forged")
    return fingerprint


@attrs.frozen(kw_only=True)
class PinnedKey:
    """An OpenPGP key whose signatures count.

    Args:
        public_key: what `gpg --export` writes, armored or not.
        fingerprint: of the primary key, spaces allowed. "" takes every primary key in `public_key`.
        role: what the embedder calls it, such as "release"; results carry it.

    Raises:
        InvalidRequest: the fingerprint is none.
    """

    public_key: bytes = attrs.field(repr=False)
    fingerprint: str = attrs.field(default="", converter=_fingerprint)
    role: str = ""


class _Unanswered(Exception):
    """gpg gave no answer; `reason` and the sentence say why."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


def _pins(keys: Iterable[PinnedKey]) -> tuple[PinnedKey, ...]:
    return tuple(keys)


@attrs.frozen(kw_only=True)
class GpgVerifier:
    """Checks `verification.gpg_signature` against pinned keys.

    Args:
        keys: the keys that count. With none, every signature is of an unknown key.
        program: gpg, by absolute path, or by name, which is looked for in the directories of the system, not in PATH.
        timeout_seconds: for all of one check.
        at: the time to judge by, in seconds since 1970; None is now.
    """

    keys: tuple[PinnedKey, ...] = attrs.field(converter=_pins)
    program: str = "gpg"
    timeout_seconds: float = 10.0
    at: int | None = None

    @property
    def scheme(self) -> str:
        """`gpg`."""
        return SCHEME

    def verify(self, document: SignedDocument) -> SignatureResult:
        """What the signature is; UNSUPPORTED, which never counts as one, where gpg is missing or does not answer in time."""
        text = text_of(SCHEME, document)
        if isinstance(text, SignatureResult):
            return text
        if len(text) > _MAX_SIGNATURE_CHARACTERS or not text.isascii() or not text.lstrip().startswith(_ARMOR):
            return _not_checked(SignatureStatus.BAD, "malformed", "it is no armored detached signature")
        if not self.keys:
            return _not_checked(SignatureStatus.UNKNOWN_KEY, "key-not-pinned", "no key is pinned")
        try:
            return self._asked(text, document.canonical)
        except _Unanswered as error:
            return _not_checked(SignatureStatus.UNSUPPORTED, error.reason, str(error))

    def _asked(self, signature: str, canonical: bytes) -> SignatureResult:
        program = _found(self.program)
        try:
            with tempfile.TemporaryDirectory(prefix="fable-exec-gpg-", ignore_cleanup_errors=True) as directory:
                os.chmod(directory, 0o700)  # whatever the host's umask is
                gpg = _Gpg(program, Path(directory), self.at, time.monotonic() + self.timeout_seconds)
                pins = gpg.take(self.keys)
                status, exit_status = gpg.run(
                    "--verify", gpg.kept("signature", signature.encode()), gpg.kept("document", canonical)
                )
        except OSError as error:
            raise _Unanswered("gpg-failed", f"gpg could not be asked: {error.strerror}") from error
        return judge(status, exit_status, pins)


class _Gpg:
    """gpg with a private home, for one check."""

    def __init__(self, program: str, home: Path, at: int | None, deadline: float) -> None:
        self._argv = [program, *_OPTIONS, *(() if at is None else ("--faked-system-time", f"{at}!"))]
        self._home = home
        self._deadline = deadline

    def take(self, keys: Sequence[PinnedKey]) -> dict[str, str]:
        """Import the keys; the role of each that counts, by its primary fingerprint."""
        pins: dict[str, str] = {}
        for key in keys:
            status, _ = self.run("--import", self.kept("key", key.public_key))
            found = imported_fingerprints(status)
            wanted = found & {key.fingerprint} if key.fingerprint else found
            if not wanted:
                raise _Unanswered("keys-unusable", f"a pinned key cannot be used: gpg finds no key {key.fingerprint}".rstrip())
            pins.update(dict.fromkeys(wanted, key.role))
        return pins

    def kept(self, name: str, data: bytes) -> str:
        """The path of a file in the home with `data` in it."""
        path = self._home / name
        path.write_bytes(data)
        path.chmod(0o600)
        return str(path)

    def run(self, *arguments: str) -> tuple[str, int]:
        """Its status lines and its exit status. Raises _Unanswered once the deadline is over, after its end."""
        environment = {"GNUPGHOME": str(self._home), "HOME": str(self._home), "LC_ALL": "C", "PATH": "/usr/bin:/bin"}
        try:
            finished = subprocess.run(
                [*self._argv, *arguments], env=environment, cwd=self._home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, timeout=max(0.0, self._deadline - time.monotonic()), umask=0o077,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise _Unanswered("gpg-timeout", "gpg did not answer in time") from None
        return finished.stdout.decode("ascii", "replace"), finished.returncode


def _found(program: str) -> str:
    found = shutil.which(program, path=SYSTEM_PATH)
    if found is None or not os.path.isabs(found):
        raise _Unanswered("gpg-missing", f"there is no {program} in {SYSTEM_PATH}, so the signature could not be checked")
    return found


def _not_checked(status: SignatureStatus, reason: str, detail: str) -> SignatureResult:
    return SignatureResult(scheme=SCHEME, status=status, reason=reason, detail=detail)

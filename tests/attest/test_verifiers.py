"""What others verify with takes what we sign, and refuses it after each thing that can be done to it."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fable_exec.attest import PROOF_SUBJECT, TREE_SUBJECT, Algorithm, PrivateKey, PublicKey, attest, verify_attestation
from fable_exec.attest.attesting import sign
from fable_exec.attest.statements import PAYLOAD_TYPE
from tests.attest.attacks import TAMPERED, changed, every_byte_changed, signed_twice, under_the_name_of
from tests.attest.made import DOCUMENT, KEYS, RUN, TREE, Binding, tree

Verifier = Callable[[bytes, PublicKey], bool]
OTHERS = {algorithm: PrivateKey.generate(algorithm) for algorithm in KEYS}
ABOUT = {TREE_SUBJECT: TREE, PROOF_SUBJECT: DOCUMENT}


def attested(algorithm: str) -> bytes:
    return attest(KEYS[algorithm], RUN, tree(), proof=Binding()).to_json()


def ours(data: bytes, key: PublicKey) -> bool:
    return verify_attestation(data, [key], ABOUT).ok


def openssl(data: bytes, key: PublicKey) -> bool:
    """Plain openssl over the bytes that the specification says are signed, put together here by its words."""
    envelope = json.loads(data)
    kind, payload = envelope["payloadType"].encode(), b64decode(envelope["payload"])
    with TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "pae").write_bytes(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
        (place / "sig").write_bytes(b"".join(b64decode(each["sig"]) for each in envelope["signatures"]))
        (place / "key").write_text(key.pem)
        # Not `dgst`, which leaves unread what follows after as many bytes as a signature may have.
        argv = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "key", "-rawin", "-in", "pae", "-sigfile", "sig"]
        digest = [] if key.algorithm is Algorithm.ED25519 else ["-digest", "sha256"]
        return subprocess.run([*argv, *digest], cwd=directory, capture_output=True).returncode == 0


def securesystemslib(data: bytes, *keys: PublicKey) -> bool:
    """By each of `keys`, as many as there are."""
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import SSlibKey

    theirs = [SSlibKey.from_crypto(load_pem_public_key(key.pem.encode())) for key in keys]
    try:
        return len(Envelope.from_dict(json.loads(data)).verify(theirs, len(theirs))) == len(theirs)
    except (VerificationError, ValueError):
        return False


def sigstore(data: bytes, key: PublicKey) -> bool:
    """Its envelope, verified by a key as its bundles are by that of their certificate; then the statement and its subjects."""
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from sigstore import dsse
    from sigstore.errors import Error
    from sigstore.hashes import Hashed
    from sigstore_models.common.v1 import HashAlgorithm

    try:
        payload = dsse._verify(load_pem_public_key(key.pem.encode()), dsse.Envelope._from_json(data))
        statement = dsse.Statement(payload)
        return all(
            statement._matches_digest(Hashed(algorithm=HashAlgorithm.SHA2_256, digest=bytes.fromhex(each)))
            for each in ABOUT.values()
        )
    except Error:
        return False


VERIFIERS: dict[str, Verifier] = {"openssl": openssl, "ours": ours, "securesystemslib": securesystemslib, "sigstore": sigstore}


def _each(*ability: str, name: str, algorithms: tuple[str, ...]) -> list[object]:
    marks = [pytest.mark.requires_ability(each) for each in ability]
    return [pytest.param(VERIFIERS[name], algorithm, id=f"{name}-{algorithm}", marks=marks) for algorithm in algorithms]


BY_EACH = pytest.mark.parametrize(
    ("accepts", "algorithm"),
    [
        *_each(name="ours", algorithms=("ed25519", "p256")),
        *_each("openssl", name="openssl", algorithms=("ed25519", "p256")),
        *_each("securesystemslib", name="securesystemslib", algorithms=("ed25519", "p256")),
        *_each("sigstore", name="sigstore", algorithms=("p256",)),
    ],
)


@BY_EACH
def test_what_we_attest_is_taken(accepts: Verifier, algorithm: str) -> None:
    assert accepts(attested(algorithm), KEYS[algorithm].public)


@BY_EACH
def test_after_any_byte_is_changed_it_is_refused(accepts: Verifier, algorithm: str) -> None:
    step = 97 if accepts is openssl else 1  # a process each
    for edited in every_byte_changed(attested(algorithm), step):
        assert not accepts(edited, KEYS[algorithm].public), edited


@pytest.mark.parametrize("attack", TAMPERED)
@BY_EACH
def test_after_an_attack_without_the_key_it_is_refused(accepts: Verifier, algorithm: str, attack: str) -> None:
    assert not accepts(TAMPERED[attack](attested(algorithm)), KEYS[algorithm].public)


@BY_EACH
def test_by_another_key_it_is_refused_whatever_name_that_takes(accepts: Verifier, algorithm: str) -> None:
    data, key, other = attested(algorithm), KEYS[algorithm], OTHERS[algorithm]
    assert not accepts(data, other.public)
    assert not accepts(under_the_name_of(data, other.public.keyid), other.public)
    forged = sign(other, PAYLOAD_TYPE, b64decode(json.loads(data)["payload"])).to_json()
    assert accepts(forged, other.public)
    assert not accepts(forged, key.public)
    assert not accepts(under_the_name_of(forged, key.public.keyid), key.public)


@pytest.mark.requires_ability("securesystemslib")
@pytest.mark.parametrize("algorithm", KEYS)
def test_for_a_threshold_of_securesystemslib_one_key_counts_once_by_whatever_names(algorithm: str) -> None:
    key, other = KEYS[algorithm].public, OTHERS[algorithm].public
    twice = signed_twice(attested(algorithm))
    renamed = changed(twice, lambda found: found["signatures"][1].update(keyid=other.keyid))
    assert securesystemslib(renamed, key)
    assert not securesystemslib(renamed, key, other)


@pytest.mark.parametrize(
    "accepts", [ours, pytest.param(sigstore, marks=pytest.mark.requires_ability("sigstore"))], ids=["ours", "sigstore"]
)
def test_those_that_read_the_statement_refuse_one_of_ours_about_another_tree(accepts: Verifier) -> None:
    other = attest(KEYS["p256"], RUN, tree(), artifacts={PROOF_SUBJECT: "0" * 64}).to_json()
    assert not accepts(other, KEYS["p256"].public)


def test_what_our_key_signed_as_another_kind_of_statement_is_refused() -> None:
    payload = b64decode(json.loads(attested("p256"))["payload"])
    other = sign(KEYS["p256"], PAYLOAD_TYPE, changed(payload, lambda found: found.update(predicateType="https://a.invalid/v1")))
    result = verify_attestation(other.to_json(), [KEYS["p256"].public], ABOUT)
    assert result.reasons == ("predicate-type",)
    assert verify_attestation(other.to_json(), [KEYS["p256"].public], ABOUT, predicate_type="https://a.invalid/v1").ok

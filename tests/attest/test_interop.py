"""The vectors that others made verify here, and not after a change; who else may sign. Others verify in `test_verifiers.py`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fable_exec.attest import Envelope, PublicKey, Statement, attest, verify_attestation
from tests.attest.attacks import changed, signed_twice
from tests.attest.made import INTEROP, OTHER, RUN, interop_key, tree

VECTOR_TYPE = "https://fable-exec.invalid/attestations/workspace-proof/v0.1"
SUBJECTS = {
    "workspace.treedigest.json": "fdbfa06e180f54798a86bf1a9f4840c021800c856ad416659f447f491b77a251",
    "proof.json": "8206c59e16b77a92e64bf04354d28058470170855ce2e7ce8da24e140efad4ce",
}
BOTH = pytest.mark.parametrize("name", ["ed25519", "p256"])


def vector(name: str) -> bytes:
    return (INTEROP / f"proof.{name}.dsse.json").read_bytes()


def judged(data: bytes, key: PublicKey, **changed: Any) -> tuple[str, ...]:
    fields = {"subjects": SUBJECTS, "predicate_type": VECTOR_TYPE, **changed}
    return verify_attestation(data, [key], **fields).reasons


@BOTH
def test_the_vectors_verify_and_say_what_their_statement_says(name: str) -> None:
    result = verify_attestation(vector(name), [interop_key(name)], SUBJECTS, predicate_type=VECTOR_TYPE)
    assert (result.ok, result.bound) == (True, True)
    assert result.statement == Statement.from_json((INTEROP / "statement.json").read_bytes())
    envelope = Envelope.from_json(vector(name))
    assert envelope.signed_bytes == (INTEROP / "pae.bin").read_bytes()


@BOTH
def test_a_vector_with_any_byte_changed_is_refused_unless_it_says_the_same(name: str) -> None:
    data, key = vector(name), interop_key(name)
    for position in range(len(data)):
        edited = bytearray(data)
        edited[position] ^= 1
        if not judged(bytes(edited), key):
            read, original = Envelope.from_json(bytes(edited)), Envelope.from_json(data)
            assert (read.payload, read.payload_type) == (original.payload, original.payload_type), position
            assert [each.value for each in read.signatures] == [each.value for each in original.signatures], position


@BOTH
def test_a_vector_with_something_else_expected_of_it_is_refused(name: str) -> None:
    data, key = vector(name), interop_key(name)
    one, two = SUBJECTS
    assert judged(data, key, subjects={one: SUBJECTS[two]}) == ("subject-differs",)
    assert judged(data, key, predicate_type=VECTOR_TYPE.replace("v0.1", "v1")) == ("predicate-type",)
    assert judged(data, OTHER.public) == ("unknown-key", "too-few-signatures")
    assert judged(signed_twice(data), key) == ("duplicate-signature",)
    assert judged(changed(data, lambda found: found.update(payloadType="text/plain")), key)[0] == "payload-type"
    other_payload = json.loads(vector(name))["payload"][:-8] + "AAAAAAA="
    assert "bad-signature" in judged(changed(data, lambda found: found.update(payload=other_payload)), key)


@BOTH
def test_the_keyid_is_only_a_hint(name: str) -> None:
    """Without it every key is tried; with one that means none of the keys it is not."""
    data, key = vector(name), interop_key(name)
    assert judged(changed(data, lambda found: found["signatures"][0].pop("keyid")), key) == ()
    assert judged(changed(data, lambda found: found["signatures"][0].update(keyid="0" * 64)), key)[0] == "unknown-key"
    named = PublicKey.from_pem(key.pem.encode(), alias="0" * 64)
    assert judged(changed(data, lambda found: found["signatures"][0].update(keyid="0" * 64)), named) == ()


@pytest.mark.requires_ability("openssl")
@BOTH
def test_openssl_agrees_about_the_vectors(name: str, tmp_path: Path) -> None:
    (tmp_path / "sig").write_bytes(Envelope.from_json(vector(name)).signatures[0].value)
    key, pae = str(INTEROP / f"{name}.pub.pem"), str(INTEROP / "pae.bin")
    raw = ["pkeyutl", "-verify", "-pubin", "-inkey", key, "-rawin", "-in", pae, "-sigfile", "sig"]
    argv = raw if name == "ed25519" else ["dgst", "-sha256", "-verify", key, "-signature", "sig", pae]
    assert subprocess.run(["openssl", *argv], cwd=tmp_path, capture_output=True).returncode == 0


@pytest.mark.requires_ability("securesystemslib")
def test_a_signer_of_securesystemslib_signs_for_us() -> None:
    from securesystemslib.signer import CryptoSigner

    theirs = CryptoSigner.generate_ed25519()

    class Adapted:
        keyid = theirs.public_key.keyid

        def sign(self, message: bytes) -> bytes:
            return bytes.fromhex(theirs.sign(message).signature)

    public = PublicKey.from_ed25519(bytes.fromhex(theirs.public_key.keyval["public"]))
    subjects = {"workspace.treedigest.json": tree().sha256}
    assert verify_attestation(attest(Adapted(), RUN, tree()), [public], subjects).ok

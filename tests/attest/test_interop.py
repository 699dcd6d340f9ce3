"""The vectors that others made verify here, what is made here verifies with others, and neither after a change."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fable_exec.attest import Envelope, PublicKey, Statement, attest, verify_attestation
from fable_exec.attest.attesting import sign
from fable_exec.attest.statements import PAYLOAD_TYPE
from tests.attest.made import INTEROP, KEYS, OTHER, RUN, Binding, interop_key, tree

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


def changed(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    found = json.loads(data)
    change(found)
    return json.dumps(found).encode()


@BOTH
def test_a_vector_with_something_else_expected_of_it_is_refused(name: str) -> None:
    data, key = vector(name), interop_key(name)
    one, two = SUBJECTS
    assert judged(data, key, subjects={one: SUBJECTS[two]}) == ("subject-differs",)
    assert judged(data, key, predicate_type=VECTOR_TYPE.replace("v0.1", "v1")) == ("predicate-type",)
    assert judged(data, OTHER.public) == ("unknown-key", "too-few-signatures")
    twice = changed(data, lambda found: found["signatures"].append(found["signatures"][0]))
    assert judged(twice, key) == ("duplicate-signature",)
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
@BOTH
def test_securesystemslib_accepts_ours_and_refuses_an_edit(name: str) -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.dsse import Envelope as Theirs
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import SSlibKey

    envelope = attest(KEYS[name], RUN, tree(), proof=Binding())
    key = SSlibKey.from_crypto(load_pem_public_key(KEYS[name].public.pem.encode()))
    assert list(Theirs.from_dict(json.loads(envelope.to_json())).verify([key], 1)) == [key.keyid]
    edited = sign(OTHER, PAYLOAD_TYPE, envelope.payload).to_json()
    with pytest.raises(VerificationError):
        Theirs.from_dict(json.loads(edited)).verify([key], 1)


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


@pytest.mark.requires_ability("sigstore")
def test_sigstore_accepts_the_p256_profile_and_refuses_an_edit() -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from sigstore import dsse
    from sigstore.errors import VerificationError

    envelope = attest(KEYS["p256"], RUN, tree(), proof=Binding())
    key = load_pem_public_key(KEYS["p256"].public.pem.encode())
    theirs = dsse.Envelope._from_json(envelope.to_json())
    assert dsse._verify(key, theirs) == envelope.payload
    dsse.Statement(envelope.payload)
    edited = changed(envelope.to_json(), lambda found: found.update(payload=found["payload"][:-8] + "AAAAAAA="))
    with pytest.raises(VerificationError):
        dsse._verify(key, dsse.Envelope._from_json(edited))

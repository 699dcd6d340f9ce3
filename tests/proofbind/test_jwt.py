"""Attestation tokens: EdDSA by a key of the set, over this document's own digest, and four outcomes that are kept apart."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from fable_exec.errors import InvalidRequest
from fable_exec.keypairs import PrivateKey, PublicKey
from fable_exec.proofbind.signatures import JwtVerifier, SignatureResult, SignatureStatus, SignedDocument, check_signatures
from tests.proofbind.signed import PROOFS, signed_document, vector

KEY_SETS = ("jwks.json", "jwks_other.json", "jwks_rotated.json", "jwks_empty.json")
VECTORS = ("jwt_valid", "jwt_body_edited_rehashed", "jwt_alg_none", "jwt_alg_hs256", "jwt_malformed")
RUN_ID = "run-1"


def key_set(name: str) -> bytes:
    return (PROOFS / "jwt" / name).read_bytes()


@pytest.mark.parametrize("keys", KEY_SETS)
@pytest.mark.parametrize("name", VECTORS)
def test_each_vector_is_verified_exactly_when_the_reference_verifies_it(name: str, keys: str) -> None:
    expected = json.loads((PROOFS / f"{name}.expected.json").read_bytes())["jwt_attestation"][keys]
    result = JwtVerifier.from_jwks(key_set(keys)).verify(vector(name))
    assert result.is_valid is (expected == "VERIFIED")
    assert result.status not in (SignatureStatus.ABSENT, SignatureStatus.UNSUPPORTED)


@pytest.mark.parametrize(
    ("name", "keys", "status", "reason"),
    [
        ("jwt_valid", "jwks_other.json", SignatureStatus.UNKNOWN_KEY, "key-not-pinned"),
        ("jwt_valid", "jwks_empty.json", SignatureStatus.UNKNOWN_KEY, "key-not-pinned"),
        ("jwt_body_edited_rehashed", "jwks.json", SignatureStatus.BAD, "not-of-this-document"),
        ("jwt_alg_none", "jwks.json", SignatureStatus.BAD, "wrong-algorithm"),
        ("jwt_alg_hs256", "jwks.json", SignatureStatus.BAD, "wrong-algorithm"),
        ("jwt_malformed", "jwks.json", SignatureStatus.BAD, "malformed"),
    ],
)
def test_a_refusal_says_why(name: str, keys: str, status: SignatureStatus, reason: str) -> None:
    result = JwtVerifier.from_jwks(key_set(keys)).verify(vector(name))
    assert (result.status, result.reason, bool(result.detail)) == (status, reason, True)


def test_verified_failed_absent_and_not_checked_are_four_answers() -> None:
    verifier = JwtVerifier.from_jwks(key_set("jwks.json"), role="receiver")
    [verified] = [each for each in check_signatures(vector("jwt_valid"), [verifier]) if each.scheme == "jwt"]
    assert verified == SignatureResult(
        scheme="jwt", status=SignatureStatus.VALID, role="receiver", signed_at=1795978804,
        fingerprint="8fDDHjz8MYJ7hhuRK1T9E87Y3H-J50cQDEXgozsiBc0",
    )  # fmt: skip
    assert check_signatures(vector("jwt_malformed"), [verifier])[1].status is SignatureStatus.BAD
    assert check_signatures(vector("gpg_valid"), [verifier])[1].status is SignatureStatus.ABSENT
    assert check_signatures(vector("jwt_valid"))[1].status is SignatureStatus.UNSUPPORTED


def test_the_keys_that_count_are_those_that_were_named() -> None:
    named = dict(JwtVerifier.from_jwks(key_set("jwks.json")).keys)
    verifier = JwtVerifier(keys=named)
    named.clear()
    assert verifier.verify(vector("jwt_valid")).is_valid


@pytest.fixture(scope="module")
def key() -> PrivateKey:
    return PrivateKey.generate()


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def document(attestation: object = None, **members: Any) -> SignedDocument:
    return signed_document({"run_id": RUN_ID, **members}, {"attestation": attestation})


CLAIMS: dict[str, Any] = {
    "job_id": "job-1", "run_id": RUN_ID, "receipt_sha256": document().canonical_sha256, "iat": 1_700_000_000,
}  # fmt: skip


def token(key: PrivateKey, claims: object = CLAIMS, header: object = None, *, raw_claims: bytes | None = None) -> str:
    header = {"alg": "EdDSA", "kid": key.public.thumbprint, "typ": "JWT"} if header is None else header
    body = json.dumps(claims).encode() if raw_claims is None else raw_claims
    text = f"{b64(json.dumps(header).encode())}.{b64(body)}"
    return f"{text}.{b64(key.sign(text.encode()))}"


def judged(key: PrivateKey, attestation: object, **fields: Any) -> SignatureResult:
    return JwtVerifier(keys={key.public.thumbprint: key.public}, **fields).verify(document(attestation))


def test_a_token_of_ours_is_valid_with_and_without_what_is_optional(key: PrivateKey) -> None:
    assert judged(key, token(key)).is_valid
    assert judged(key, token(key, {**CLAIMS, "sub": "x", "iss": "y", "new": 1, "exp": 2e9, "nbf": 1}), at=1_800_000_000).is_valid
    assert judged(key, token(key, header={"alg": "EdDSA", "kid": key.public.thumbprint, "jku": "https://evil.invalid"})).is_valid


@pytest.mark.parametrize("position", range(0, 400, 7))
def test_one_changed_character_is_refused(position: int, key: PrivateKey) -> None:
    text = token(key)
    position %= len(text)
    other = "A" if text[position] != "A" else "B"
    assert not judged(key, text[:position] + other + text[position + 1 :]).is_valid


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + "=",
        lambda text: text + "\n",
        lambda text: " " + text,
        lambda text: text + ".",
        lambda text: text.rsplit(".", 1)[0] + ".",
        lambda text: text.replace(".", "..", 1),
        lambda text: text[:-1],
        # The last of 86 characters carries 4 bits of a byte and 2 that mean nothing.
        lambda text: text[:-1] + chr(ord(text[-1]) + 1),
        lambda text: text + "a" * 20_000,
        lambda text: "",
        lambda text: "é" + text,
        lambda text: "\ud800" + text,
    ],
)
def test_another_spelling_of_a_token_is_refused(change: Callable[[str], str], key: PrivateKey) -> None:
    assert not judged(key, change(token(key))).is_valid


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"receipt_sha256": "0" * 64}, "not-of-this-document"),
        ({"receipt_sha256": CLAIMS["receipt_sha256"].upper()}, "not-of-this-document"),
        ({"receipt_sha256": "é\ud800"}, "malformed"),
        ({"receipt_sha256": None}, "malformed"),
        ({"run_id": "run-2"}, "run-id-differs"),
        ({"run_id": 1}, "malformed"),
        ({"job_id": None}, "malformed"),
        ({"iat": "1"}, "malformed"),
        ({"iat": True}, "malformed"),
        ({"iat": None}, "malformed"),
        ({"exp": None}, "malformed"),
        ({"exp": 1_700_000_001}, "signature-expired"),
        ({"nbf": 1_900_000_000}, "not-yet-valid"),
        ({"sub": 1}, "malformed"),
        ({"iss": []}, "malformed"),
    ],
)
def test_claims_that_are_not_of_this_document_are_refused(changed: dict[str, Any], reason: str, key: PrivateKey) -> None:
    result = judged(key, token(key, {**CLAIMS, **changed}), at=1_800_000_000)
    assert (result.is_valid, result.reason) == (False, reason)


@pytest.mark.parametrize("name", ["job_id", "run_id", "receipt_sha256", "iat"])
def test_every_claim_is_needed(name: str, key: PrivateKey) -> None:
    claims = {each: value for each, value in CLAIMS.items() if each != name}
    assert judged(key, token(key, claims)).reason == "malformed"


def test_claims_that_could_be_read_in_two_ways_are_refused(key: PrivateKey) -> None:
    raw = json.dumps(CLAIMS)
    for twice in (f'{{"run_id":"other",{raw[1:]}', f"{raw} x", raw.replace("1700000000", "NaN"), f"[{raw}]"):
        assert judged(key, token(key, raw_claims=twice.encode())).reason == "malformed"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"alg": "none"}, "wrong-algorithm"),
        ({"alg": "HS256"}, "wrong-algorithm"),
        ({"alg": "eddsa"}, "wrong-algorithm"),
        ({"alg": ["EdDSA"]}, "wrong-algorithm"),
        ({"alg": None}, "wrong-algorithm"),
        ({"crit": ["exp"]}, "malformed"),
        ({"b64": False}, "malformed"),
        ({"typ": "JWE"}, "malformed"),
        ({"kid": ""}, "malformed"),
        ({"kid": None}, "malformed"),
        ({"kid": "../../etc/passwd"}, "malformed"),
        ({"kid": "other"}, "key-not-pinned"),
    ],
)
def test_headers_that_are_not_ours_are_refused_though_the_signature_is_good(
    changed: dict[str, Any], reason: str, key: PrivateKey
) -> None:
    header = {"alg": "EdDSA", "kid": key.public.thumbprint, "typ": "JWT", **changed}
    assert judged(key, token(key, header=header)).reason == reason


def test_another_key_does_not_become_the_chosen_one_by_its_kid(key: PrivateKey) -> None:
    forger = PrivateKey.generate()
    header = {"alg": "EdDSA", "kid": key.public.thumbprint, "typ": "JWT"}
    assert judged(key, token(forger, header=header)).reason == "not-of-this-token"


@pytest.mark.parametrize("value", [7, True, [], {}, {"a": 1}])
def test_a_token_that_is_no_text_is_bad(value: object, key: PrivateKey) -> None:
    assert (judged(key, value).status, judged(key, value).reason) == (SignatureStatus.BAD, "not-text")


def row(**changed: Any) -> dict[str, Any]:
    return {**json.loads(key_set("jwks.json"))["keys"][0], **changed}


@pytest.mark.parametrize(
    "changed",
    [
        {"kid": "8fDDHjz8MYJ7hhuRK1T9E87Y3H-J50cQDEXgozsiBc1"},
        {"kid": None},
        {"kty": "EC"},
        {"crv": "Ed448"},
        {"alg": "ES256"},
        {"use": "enc"},
        {"x": "AA"},
        {"x": 1},
        {"x": "bre_FJ346_oeTq5uoXQABjhwerkbGt2gG1q8_7_qwlF"},
    ],
)
def test_a_row_that_is_no_key_of_ours_is_left_out(changed: dict[str, Any]) -> None:
    verifier = JwtVerifier.from_jwks(json.dumps({"keys": [row(**changed), 7]}).encode())
    assert verifier.keys == {}


def test_a_key_that_is_published_twice_is_one_key() -> None:
    verifier = JwtVerifier.from_jwks(json.dumps({"keys": [row(), row(use="sig")]}).encode())
    assert len(verifier.keys) == 1
    assert verifier.verify(vector("jwt_valid")).is_valid


@pytest.mark.parametrize("text", [b"", b"[]", b'{"keys":{}}', b'{"keys":[],"keys":[]}', b"\xff", b'{"keys":' + b"[" * 100])
def test_what_is_no_key_set_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidRequest, match="key set"):
        JwtVerifier.from_jwks(text)


def test_thumbprints_are_those_of_rfc_8037() -> None:
    """Appendix A.3: the key of the RFC and its thumbprint."""
    x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    assert PublicKey.from_ed25519(base64.urlsafe_b64decode(x + "=")).thumbprint == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_without_the_extra_a_token_is_unsupported_and_never_absent() -> None:
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from fable_exec.proofbind.signatures import JwtVerifier\n"
        "from tests.proofbind.signed import PROOFS, vector\n"
        "result = JwtVerifier.from_jwks((PROOFS / 'jwt/jwks.json').read_bytes()).verify(vector('jwt_valid'))\n"
        "print(result.status.value, result.reason, 'fable-exec[sign]' in result.detail)\n"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=PROOFS.parents[2])
    assert (finished.stdout, finished.stderr) == ("unsupported cryptography-missing True\n", "")

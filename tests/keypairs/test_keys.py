"""Keys: kept private, called what others call them, and the same as openssl's."""

from __future__ import annotations

import os
import pickle
import re
import stat
import subprocess
import sys
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest

import fable_exec
from fable_exec.errors import ExtraMissing, StateUnreadable
from fable_exec.keypairs import Algorithm, PrivateKey, PublicKey

INTEROP = Path(__file__).resolve().parents[1] / "data" / "proofs" / "interop"
BOTH = pytest.mark.parametrize("algorithm", list(Algorithm))


def public(name: str) -> PublicKey:
    return PublicKey.from_pem((INTEROP / f"{name}.pub.pem").read_bytes())


def test_keyids_are_those_of_securesystemslib() -> None:
    """The first two as in-toto 3.1.0 wrote them into the vectors; the third by its rule, in which a PEM stands as it is."""
    assert public("ed25519").keyid == "9ed1f7b524db5b05a4488010c059ae82684e1df9abe2c6196bb80ffc642c231d"
    assert public("owner").keyid == "d8761dc80c6273fc45272f7fa600eed97df482e938a079ae88bd348d97d28071"
    assert public("p256").keyid == "b541f0c96462cfc236fc30af00063dee238481ff63e6fa9c499d75deb0ac7bfb"


def test_the_ids_that_other_tools_use_mean_the_key_too() -> None:
    assert "d03a9e60eb89dbdba6c1f652b2a773b749d6852970a2e0813fcf2ba00f263e71" in public("ed25519").keyids  # of its PEM
    assert "39bc0fd7d19903ec104421c7d26f260d1f3613019e54d2ddb97116f0efa7ffe7" in public("p256").keyids  # of its DER
    assert "mine" in PublicKey.from_pem(public("p256").pem.encode(), alias="mine").keyids


@pytest.mark.requires_ability("securesystemslib")
@BOTH
def test_securesystemslib_calls_a_key_the_same(algorithm: Algorithm) -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.signer import SSlibKey

    key = PrivateKey.generate(algorithm).public
    assert SSlibKey.from_crypto(load_pem_public_key(key.pem.encode())).keyid == key.keyid


@BOTH
def test_a_key_survives_its_file_which_nobody_else_may_open(algorithm: Algorithm, tmp_path: Path) -> None:
    key, path = PrivateKey.generate(algorithm), tmp_path / "key.pem"
    before = os.umask(0)
    try:
        key.save(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = PrivateKey.load(path)
    assert again.public == key.public
    assert key.public.verify(again.sign(b"message"), b"message")
    with pytest.raises(FileExistsError):
        key.save(path)


def test_a_saved_key_can_be_loaded_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o777)
    try:
        PrivateKey.generate().save(tmp_path / "key.pem")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "key.pem").stat().st_mode) == 0o600
    assert PrivateKey.load(tmp_path / "key.pem")


@pytest.mark.requires_ability("openssl")
@pytest.mark.parametrize("arguments", [("ed25519",), ("EC", "-pkeyopt", "ec_paramgen_curve:P-256")])
def test_keys_of_openssl_are_taken_and_written_as_it_does(arguments: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    subprocess.run(["openssl", "genpkey", "-out", str(path), "-algorithm", *arguments], check=True, capture_output=True)
    path.chmod(0o600)
    written = subprocess.run(["openssl", "pkey", "-in", str(path), "-pubout"], check=True, capture_output=True).stdout
    assert PrivateKey.load(path).public.pem.encode() == written


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o601])
def test_a_key_that_others_may_open_is_refused(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    PrivateKey.generate().save(path)
    path.chmod(mode)
    with pytest.raises(StateUnreadable, match="0600") as caught:
        PrivateKey.load(path)
    assert (caught.value.reason, caught.value.path) == ("not-private", str(path))


def test_what_stands_where_a_key_should_is_refused(tmp_path: Path) -> None:
    PrivateKey.generate().save(tmp_path / "key.pem")
    (tmp_path / "link").symlink_to("key.pem")
    os.mkfifo(tmp_path / "fifo", 0o600)
    (tmp_path / "text").write_bytes(b"no key")
    (tmp_path / "text").chmod(0o600)
    for name, reason in (("link", "not-private"), ("fifo", "not-private"), ("text", "foreign")):
        with pytest.raises(StateUnreadable) as caught:
            PrivateKey.load(tmp_path / name)
        assert caught.value.reason == reason
    os.link(tmp_path / "key.pem", tmp_path / "second")
    with pytest.raises(StateUnreadable, match="more than one link"):
        PrivateKey.load(tmp_path / "key.pem")
    with pytest.raises(FileNotFoundError):
        PrivateKey.load(tmp_path / "nothing")


@pytest.mark.requires_ability("openssl")
@pytest.mark.parametrize(
    "arguments", [("RSA", "-pkeyopt", "rsa_keygen_bits:2048"), ("EC", "-pkeyopt", "ec_paramgen_curve:P-384"), ("ed448",)]
)
def test_keys_of_other_algorithms_are_refused(arguments: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    subprocess.run(["openssl", "genpkey", "-out", str(path), "-algorithm", *arguments], check=True, capture_output=True)
    path.chmod(0o600)
    with pytest.raises(StateUnreadable, match="neither an Ed25519 nor a P-256"):
        PrivateKey.load(path)
    pem = subprocess.run(["openssl", "pkey", "-in", str(path), "-pubout"], check=True, capture_output=True).stdout
    with pytest.raises(StateUnreadable, match="neither an Ed25519 nor a P-256"):
        PublicKey.from_pem(pem)


@pytest.mark.requires_ability("openssl")
def test_a_key_with_a_passphrase_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    openssl = ["openssl", "genpkey", "-algorithm", "ed25519", "-aes256", "-pass", "pass:x", "-out", str(path)]
    subprocess.run(openssl, check=True, capture_output=True)
    path.chmod(0o600)
    with pytest.raises(StateUnreadable, match="without a passphrase"):
        PrivateKey.load(path)


def test_a_secret_is_neither_shown_nor_pickled() -> None:
    key = PrivateKey.generate()
    assert "PRIVATE" not in repr(key) and "_secret" not in repr(key)
    with pytest.raises(TypeError):
        pickle.dumps(key)


@BOTH
def test_signatures_verify_with_their_own_key_over_their_own_message_alone(algorithm: Algorithm) -> None:
    key, other = PrivateKey.generate(algorithm), PrivateKey.generate(algorithm)
    signature = key.sign(b"message")
    assert key.public.verify(signature, b"message")
    assert not key.public.verify(signature, b"messagf")
    assert not other.public.verify(signature, b"message")
    for other_algorithm in Algorithm:
        assert not PrivateKey.generate(other_algorithm).public.verify(signature, b"message")


@BOTH
@hypothesis.given(data=st.binary(max_size=80))
def test_any_other_bytes_are_no_signature(algorithm: Algorithm, data: bytes) -> None:
    assert not _KEYS[algorithm].public.verify(data, b"message")


_KEYS = {algorithm: PrivateKey.generate(algorithm) for algorithm in Algorithm}


@pytest.mark.parametrize("pem", [b"", b"x", b"-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----\n", b"\xff" * 50_000])
def test_what_is_no_public_key_is_refused(pem: bytes) -> None:
    with pytest.raises(StateUnreadable, match="the key K cannot be used"):
        PublicKey.from_pem(pem, name="K")


def test_a_key_of_the_wrong_length_is_none() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        PublicKey.from_ed25519(b"x" * 31)
    assert not PublicKey.from_ed25519(b"\xff" * 32).verify(b"\0" * 64, b"message")
    with pytest.raises(ValueError, match="Ed25519"):
        _ = public("p256").thumbprint


@pytest.mark.parametrize(
    "use",
    [
        "PrivateKey.generate()",
        "PrivateKey.load('nothing')",
        "PublicKey.from_pem(b'')",
        "PublicKey.from_ed25519(bytes(32)).verify(b'', b'')",
    ],
)
def test_without_the_extra_the_error_says_what_to_install(use: str) -> None:
    program = f"import sys; sys.modules['cryptography'] = None\nfrom fable_exec.keypairs import *\n{use}"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "ExtraMissing: this needs cryptography, which is not installed: pip install '.[sign]' in a checkout" in finished.stderr


def test_the_error_for_a_missing_extra_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(ExtraMissing.of("sign", "cryptography")))
    assert (error.extra, error.code, isinstance(error, ImportError)) == ("sign", "extra-missing", True)


def test_no_other_room_names_the_package() -> None:
    package = Path(fable_exec.__file__).parent
    named = {
        path.relative_to(package).parts[0]
        for path in package.rglob("*.py")
        if re.search(r"^\s*(from|import) cryptography", path.read_text(), re.MULTILINE)
    }
    assert named == {"keypairs"}


def test_loading_the_rooms_loads_no_cryptography() -> None:
    rooms = "fable_exec.keypairs, fable_exec.proofbind.signatures, fable_exec.proofbind, fable_exec.attest"
    program = f"import sys, {rooms}; print('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"

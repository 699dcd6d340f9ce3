"""OpenPGP signatures: only a pinned key's one good signature of these bytes counts, whatever gpg's exit status says."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec.errors import InvalidRequest
from fable_exec.proofbind.signatures import (
    GpgVerifier,
    PinnedKey,
    SignatureResult,
    SignatureStatus,
    SignedDocument,
    check_signatures,
)
from fable_exec.proofbind.signatures.gpgstatus import judge
from tests import hosts
from tests.proofbind.signed import AFTER_SIGNING, OPENPGP, SIGNER, openpgp, pinned, signed_document, vector

pytestmark = pytest.mark.requires_ability("gpg")
ALL = ("signer", "expired", "revoked")


def checked(document: SignedDocument, *names: str, **fields: Any) -> SignatureResult:
    return GpgVerifier(keys=pinned(*names), at=AFTER_SIGNING, **fields).verify(document)


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("gpg_valid", SignatureStatus.VALID, ""),
        ("gpg_valid_but_gpg_missing", SignatureStatus.VALID, ""),
        ("gpg_expired_key", SignatureStatus.EXPIRED, "key-expired"),
        ("gpg_revoked_key", SignatureStatus.REVOKED, "key-revoked"),
        ("gpg_tampered_body_rehashed", SignatureStatus.BAD, "not-of-this-document"),
        ("gpg_garbage", SignatureStatus.BAD, "malformed"),
        ("gpg_one_good_one_bad", SignatureStatus.BAD, "several-signatures"),
    ],
)
def test_each_vector_is_what_its_signature_is_with_all_keys_pinned(name: str, status: SignatureStatus, reason: str) -> None:
    result = checked(vector(name), *ALL)
    assert (result.status, result.reason) == (status, reason)
    assert bool(result.detail) is bool(reason)


def test_a_valid_signature_names_the_primary_key_its_role_and_its_time() -> None:
    [key] = pinned("signer", fingerprint=SIGNER.lower(), role="release")
    result = GpgVerifier(keys=[key], at=AFTER_SIGNING).verify(vector("gpg_valid"))
    assert result == SignatureResult(
        scheme="gpg", status=SignatureStatus.VALID, fingerprint=SIGNER, role="release", signed_at=1795978795
    )


def test_a_key_that_is_not_pinned_is_unknown_also_when_its_bytes_are_there() -> None:
    document = vector("gpg_valid_unknown_key")
    assert checked(document, "other").status is SignatureStatus.UNKNOWN_KEY
    both = b"".join(key.public_key for key in pinned("signer", "other"))
    other = "FD95E33E8C49C4D1ADBB9AEB4E3D77ED0F480A6B"
    one_of_two = PinnedKey(public_key=both, fingerprint=other)
    result = GpgVerifier(keys=[one_of_two], at=AFTER_SIGNING).verify(document)
    assert (result.status, result.reason, result.fingerprint) == (SignatureStatus.UNKNOWN_KEY, "key-not-pinned", SIGNER)
    assert GpgVerifier(keys=[]).verify(document).status is SignatureStatus.UNKNOWN_KEY


def test_the_keyring_of_the_user_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    key = str(OPENPGP.parent / "gpg/signer.pub.asc")
    imported = ["gpg", "--homedir", str(home), "--batch", "--no-autostart", "--status-fd", "1", "--import", key]
    # Its exit status tells of an agent that it looks for as well.
    assert b"IMPORT_OK" in subprocess.run(imported, capture_output=True).stdout
    monkeypatch.setenv("GNUPGHOME", str(home))
    assert checked(vector("gpg_valid"), "other").status is SignatureStatus.UNKNOWN_KEY


def test_a_subkey_signs_for_its_primary_key() -> None:
    result = checked(openpgp("subkey"), "own/own")
    assert (result.status, result.fingerprint) == (SignatureStatus.VALID, "FC7654213A59CBF53836F43EC63E1B328DA1A564")


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("two", SignatureStatus.BAD, "several-signatures"),
        ("twice", SignatureStatus.BAD, "several-signatures"),
        ("inline", SignatureStatus.BAD, "malformed"),
        ("compressed", SignatureStatus.BAD, "malformed"),
        ("text", SignatureStatus.BAD, "malformed"),
        ("sha1", SignatureStatus.BAD, "weak-digest"),
        ("expired", SignatureStatus.EXPIRED, "signature-expired"),
    ],
)
def test_what_else_gpg_calls_good_does_not_count(name: str, status: SignatureStatus, reason: str) -> None:
    result = checked(openpgp(name), "own/own", "own/second")
    assert (result.status, result.reason) == (status, reason)


def test_an_expired_key_was_good_before_it_expired() -> None:
    early = attrs.evolve(GpgVerifier(keys=pinned("expired")), at=1735693200 + 60)
    assert early.verify(vector("gpg_expired_key")).status is SignatureStatus.VALID


def test_without_gpg_a_signature_is_unsupported_and_never_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy("/bin/true", "no-gpg")
    for program in ("no-such-program", "no-gpg", "./no-gpg", "/nonexistent/gpg", ""):
        result = checked(vector("gpg_valid_but_gpg_missing"), "signer", program=program)
        assert (result.status, result.reason, result.is_present) == (SignatureStatus.UNSUPPORTED, "gpg-missing", True)


@pytest.mark.parametrize("directory", [".", "", "{here}"])
def test_a_gpg_in_the_path_of_the_caller_is_never_run(directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpg").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "gpg").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{directory.format(here=tmp_path)}:{os.defpath}")
    assert checked(vector("gpg_valid"), "signer").status is SignatureStatus.VALID
    assert not (tmp_path / "ran").exists()


def test_a_gpg_that_does_not_answer_is_ended_at_the_deadline(tmp_path: Path) -> None:
    slow = tmp_path / "gpg"
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    slow.chmod(0o755)
    result = checked(vector("gpg_valid"), "signer", program=str(slow), timeout_seconds=2.0)
    assert (result.status, result.reason) == (SignatureStatus.UNSUPPORTED, "gpg-timeout")

    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_a_gpg_that_says_nothing_and_exits_well_has_verified_nothing(tmp_path: Path) -> None:
    silent = tmp_path / "gpg"
    silent.write_text(f'#!/bin/sh\necho "[GNUPG:] IMPORT_OK 1 {SIGNER}"\n')
    silent.chmod(0o755)
    assert checked(vector("gpg_valid"), "signer", program=str(silent)).status is SignatureStatus.BAD


def test_nothing_is_left_in_temporary_files_and_no_agent_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert checked(vector("gpg_valid"), *ALL).is_valid
    assert list(tmp_path.iterdir()) == []
    assert hosts.alive_with(str(tmp_path)) == []


@pytest.mark.parametrize("mask", [0, 0o777])
def test_it_works_whatever_the_umask(mask: int) -> None:
    before = os.umask(mask)
    try:
        result = checked(vector("gpg_valid"), "signer")
    finally:
        os.umask(before)
    assert result.is_valid


def test_the_home_is_private_and_holds_the_pinned_keys_alone(tmp_path: Path) -> None:
    spy = tmp_path / "gpg"
    spy.write_text(
        f'#!/bin/sh\nstat -c %a "$GNUPGHOME" >> {tmp_path}/seen\nenv | cut -d= -f1 | sort | tr "\\n" " " >> {tmp_path}/seen\n'
        f'echo "$@" | grep -q -- --no-autostart && exec gpg "$@"\n'
    )
    spy.chmod(0o755)
    assert checked(vector("gpg_valid"), "signer", program=str(spy)).is_valid
    seen = (tmp_path / "seen").read_text()
    assert set(seen.split()) - {"PWD", "OLDPWD", "_", "SHLVL"} == {"700", "GNUPGHOME", "HOME", "LC_ALL", "PATH"}


def test_a_pinned_key_that_is_none_is_said_and_counts_for_nothing() -> None:
    for key in (PinnedKey(public_key=b"no key"), *pinned("signer", fingerprint="0" * 40)):
        result = GpgVerifier(keys=[key]).verify(vector("gpg_valid"))
        assert (result.status, result.reason) == (SignatureStatus.UNSUPPORTED, "keys-unusable")


@pytest.mark.parametrize("fingerprint", ["01EB4D069BBE37A1", "9BBE37A1", "Z" * 40, "A" * 41])
def test_short_ids_and_what_is_no_fingerprint_are_refused(fingerprint: str) -> None:
    with pytest.raises(InvalidRequest, match="fingerprint"):
        PinnedKey(public_key=b"", fingerprint=fingerprint)


@pytest.mark.parametrize("value", [7, True, [], {}, ["x"], {"a": 1}])
def test_a_signature_that_is_no_text_is_bad(value: object) -> None:
    document = signed_document({}, {"gpg_signature": value})
    result = GpgVerifier(keys=pinned("signer")).verify(document)
    assert (result.status, result.reason) == (SignatureStatus.BAD, "not-text")


@pytest.mark.parametrize("text", ["x", "-----BEGIN PGP MESSAGE-----", "-----BEGIN PGP SIGNATURE-----\ud800", "€", "a" * 70_000])
def test_what_is_no_armored_signature_is_not_given_to_gpg(text: str) -> None:
    result = GpgVerifier(keys=pinned("signer"), program="/nonexistent/gpg").verify(signed_document({}, {"gpg_signature": text}))
    assert (result.status, result.reason) == (SignatureStatus.BAD, "malformed")


@pytest.mark.parametrize("value", [None, ""])
def test_no_signature_is_absent(value: str | None) -> None:
    document = signed_document({}, {"gpg_signature": value})
    result = GpgVerifier(keys=pinned("signer")).verify(document)
    assert (result.status, result.is_present, result.reason) == (SignatureStatus.ABSENT, False, "")
    assert GpgVerifier(keys=()).verify(signed_document({}, {})).status is SignatureStatus.ABSENT


def test_one_byte_of_another_document_is_refused() -> None:
    document = vector("gpg_valid")
    for position in (0, len(document.canonical) // 2, len(document.canonical) - 1):
        edited = bytearray(document.canonical)
        edited[position] ^= 1
        result = checked(attrs.evolve(document, canonical=bytes(edited)), "signer")
        assert (result.status, result.reason) == (SignatureStatus.BAD, "not-of-this-document")


GOOD = f"""[GNUPG:] NEWSIG
[GNUPG:] KEY_CONSIDERED {SIGNER} 0
[GNUPG:] SIG_ID ioK8MNO0/lxUz8R9GmnXMzw6FoE 2026-11-29 1795978795
[GNUPG:] GOODSIG 01EB4D069BBE37A1 Vector Signer <signer@example.invalid>
[GNUPG:] VALIDSIG {SIGNER} 2026-11-29 1795978795 0 4 0 22 8 00 {SIGNER}
[GNUPG:] TRUST_UNDEFINED 0 pgp
"""
PINS = {SIGNER: "release"}


def test_the_words_of_one_good_signature_are_valid() -> None:
    assert judge(GOOD, 0, PINS).is_valid
    assert judge(GOOD + "[GNUPG:] KEYEXPIRED 1735776000\n[GNUPG:] NOTATION_NAME a@b\n", 0, PINS).is_valid


@pytest.mark.parametrize(
    "word", ["NODATA 1", "PLAINTEXT 62 0 ", "ERROR verify 1", "FAILURE gpg-exit 1", "UNEXPECTED 0", "NEW_WORD"]
)
def test_any_word_that_is_not_known_to_be_harmless_refuses(word: str) -> None:
    assert judge(f"{GOOD}[GNUPG:] {word}\n", 0, PINS).status is SignatureStatus.BAD


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("EXPSIG 01EB4D069BBE37A1 x", SignatureStatus.BAD),
        ("BADSIG 01EB4D069BBE37A1 x", SignatureStatus.BAD),
        ("GOODSIG 01EB4D069BBE37A1 x", SignatureStatus.BAD),
        ("NEWSIG", SignatureStatus.BAD),
        ("KEYREVOKED", SignatureStatus.REVOKED),
    ],
)
def test_a_second_word_of_a_signature_refuses_wherever_it_stands(word: str, status: SignatureStatus) -> None:
    assert judge(f"{GOOD}[GNUPG:] {word}\n", 0, PINS).status is status
    assert judge(f"[GNUPG:] {word}\n{GOOD}", 0, PINS).status is status


def test_each_word_that_makes_it_good_is_needed() -> None:
    lines = GOOD.splitlines(keepends=True)
    for needed in ("GOODSIG", "VALIDSIG"):
        rest = "".join(line for line in lines if needed not in line)
        assert judge(rest, 0, PINS).status is SignatureStatus.BAD
    assert judge(GOOD, 1, PINS).status is SignatureStatus.BAD
    assert judge(GOOD, -9, PINS).status is SignatureStatus.BAD
    assert judge(GOOD.replace("[GNUPG:] ", " [GNUPG:] "), 0, PINS).status is SignatureStatus.BAD
    assert judge("", 0, PINS).status is SignatureStatus.BAD
    assert judge(GOOD.replace("EXP", ""), 0, {}).status is SignatureStatus.UNKNOWN_KEY


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ("4E3D77ED0F480A6B 22 8 00 1795978800 9 FD95E33E8C49C4D1ADBB9AEB4E3D77ED0F480A6B", SignatureStatus.UNKNOWN_KEY),
        ("4E3D77ED0F480A6B 99 8 00 1795978800 4 -", SignatureStatus.UNSUPPORTED),
        ("4E3D77ED0F480A6B 22 1 00 1795978800 5 -", SignatureStatus.BAD),
        ("", SignatureStatus.BAD),
    ],
)
def test_what_gpg_cannot_verify_is_told_apart(fields: str, status: SignatureStatus) -> None:
    assert judge(f"[GNUPG:] NEWSIG\n[GNUPG:] ERRSIG {fields}\n", 2, PINS).status is status


def test_a_signature_without_a_verifier_is_unsupported_not_left_out() -> None:
    results = check_signatures(vector("gpg_valid"))
    assert [(each.scheme, each.status) for each in results] == [
        ("gpg", SignatureStatus.UNSUPPORTED),
        ("jwt", SignatureStatus.ABSENT),
    ]
    assert results[0].reason == "no-keys"


def test_of_several_verifiers_the_one_that_finds_it_valid_speaks() -> None:
    verifiers = [GpgVerifier(keys=pinned(name), at=AFTER_SIGNING) for name in ("other", "signer")]
    assert check_signatures(vector("gpg_valid"), verifiers)[0].is_valid
    assert check_signatures(vector("gpg_tampered_body_rehashed"), verifiers)[0].status is SignatureStatus.UNKNOWN_KEY

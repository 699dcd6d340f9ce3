"""`fable-exec proof`: what it prints, where, and with which exit status."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fable_exec.attest import PrivateKey
from tests.cli.typed import PROGRAM, environment, the_object, typed, typed_here
from tests.proofbind.receipts import changed
from tests.proofbind.repositories import RUN_ID, TREE, make_fixture
from tests.proofbind.signed import PROOFS

pytestmark = pytest.mark.requires_ability("git")

VALID = str(PROOFS / "valid_verified.proof.json")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fixture(tmp_path_factory.mktemp("proof") / "repository")


@pytest.fixture
def receipt(tmp_path: Path) -> Any:
    def write(changes: Mapping[str, Any]) -> str:
        (tmp_path / "receipt.json").write_text(json.dumps(changed(changes)))
        return str(tmp_path / "receipt.json")

    return write


def verified(repository: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    finished = typed_here("proof", "verify", "--repo", str(repository), "--json", "--level", "fast", *arguments)
    return finished.returncode, the_object(finished)


def test_a_document_that_holds_exits_with_0(repository: Path) -> None:
    finished = typed("proof", "verify", VALID, cwd=repository)
    assert (finished.returncode, finished.stdout) == (0, b"")
    assert finished.stderr.decode() == f"fable-exec: holds: {VALID}: VERIFIED, run {RUN_ID}\n"


def test_the_object_has_every_field(repository: Path) -> None:
    status, members = verified(repository, VALID)
    assert (status, members["schema_version"], members["document_schema_version"]) == (0, 1, "1.1")
    assert {name: members[name] for name in ("ok", "reason", "reasons", "hash_ok", "gpg_ok", "generator_trusted")} == {
        "ok": True, "reason": "", "reasons": [], "hash_ok": True, "gpg_ok": "n/a", "generator_trusted": True,
    }  # fmt: skip
    names = ("headline_consistent", "degraded", "cost_coherent", "diff_drift", "tree_drift", "schema_supported")
    assert [members[name] for name in names] == [True, [], True, False, False, True]
    assert members["tree_recheck"] == {"recorded": TREE, "current": TREE}
    assert members["axes"]["signature"]["state"] == "unchecked"


def test_a_wrong_engine_directory_makes_another_digest_and_is_never_believed(repository: Path) -> None:
    status, members = verified(repository, "--engine-dir", ".fable", VALID)
    assert (status, members["ok"], members["tree_drift"]) == (1, False, True)


def test_every_reason_is_told_on_a_line_of_its_own(repository: Path, receipt: Any) -> None:
    path = receipt({"schema_version": "2.0", "tree_sha256": "\x1b[31m" + "0" * 64})
    finished = typed_here("proof", "verify", path, "--repo", str(repository), "--level", "fast")
    lines = finished.stderr.decode().splitlines()
    assert (finished.returncode, len(lines)) == (1, 2)
    assert all(line.startswith(f"fable-exec: REFUSED: {path}: ") for line in lines)
    assert [line.rpartition("(")[2] for line in lines] == ["schema-unsupported)", "tree-fields-disagree)"]
    assert "\x1b" not in finished.stderr.decode()


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff", b'{"a":1,"a":2}'])
def test_what_is_no_document_exits_with_2(raw: bytes, repository: Path, tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(raw)
    status, members = verified(repository, str(tmp_path / "raw"))
    assert (status, members["ok"], members["diff_drift"], members["tree_drift"]) == (2, False, None, None)
    assert members["reason"].startswith("document-")
    assert typed_here("proof", "verify", str(tmp_path / "none"), "--json").returncode == 2
    assert typed_here("proof", "show", str(tmp_path / "raw")).returncode == 2


def test_nothing_is_verified_outside_of_a_repository(tmp_path: Path) -> None:
    status, members = verified(tmp_path, VALID)
    assert (status, members["reasons"]) == (1, ["diff-no-repository", "tree-no-repository"])
    status, members = verified(tmp_path / "nowhere", VALID)
    assert (status, members["reasons"]) == (1, ["diff-no-workspace", "tree-no-workspace"])


def test_more_can_be_asked_for(repository: Path) -> None:
    assert verified(repository, "--require", "gates", "--require", "execution", VALID)[0] == 0
    status, members = verified(repository, "--require", "signature", VALID)
    assert (status, members["reasons"]) == (1, ["signature-absent"])


@pytest.mark.requires_ability("gpg")
def test_a_signature_counts_by_the_key_that_is_named(repository: Path) -> None:
    signed = str(PROOFS / "gpg_valid.proof.json")
    status, members = verified(repository, "--gpg-key", str(PROOFS / "gpg/other.pub.asc"), signed)
    assert (status, members["gpg_ok"], members["reasons"]) == (1, False, ["signature-unknown-key"])
    status, members = verified(repository, signed)
    assert (status, members["gpg_ok"], members["reasons"]) == (1, False, ["signature-unsupported"])


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", VALID, "--engine-dir", "a/b"), ("verify", VALID, "--gpg-key", "/nonexistent"),
        ("verify", VALID, "--jwks", VALID), ("verify", VALID, "--require", "luck"), ("verify",), ("bind", "."),
        ("bind", ".", "--into", ".", "--engine-dir", ".."),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_wrong_usage(arguments: tuple[str, ...]) -> None:
    finished = typed_here("proof", *arguments)
    assert (finished.returncode, finished.stdout) == (2, b"")


def test_show_tells_what_a_document_says(receipt: Any) -> None:
    finished = typed_here("proof", "show", VALID)
    lines = finished.stdout.decode().splitlines()
    assert (finished.returncode, finished.stderr) == (0, b"")
    assert lines[:2] == [f"run: {RUN_ID}", "headline: VERIFIED"]
    assert "hash: pass" in lines and any(line.startswith("signature: unchecked (signature-absent: ") for line in lines)
    forged = typed_here("proof", "show", "--json", receipt({"honesty/headline": "VERIFIED WITH GAPS", "run_id": "run-\u202e"}))
    members = the_object(forged)
    assert (forged.returncode, members["ok"], members["headline"]) == (0, False, "VERIFIED WITH GAPS")
    assert set(members["derived_headlines"].values()) == {"VERIFIED"}
    assert "\u202e" not in typed_here("proof", "show", receipt({"run_id": "run-\u202e"})).stdout.decode()


def test_a_fifo_in_place_of_a_file_keeps_nobody_waiting_and_that_of_a_shell_is_read(tmp_path: Path) -> None:
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    key = PrivateKey.generate().public.pem
    (tmp_path / "key.pub").write_text(key)
    for words in (
        ("proof", "verify", fifo), ("proof", "show", fifo), ("proof", "show", VALID, "--jwks", fifo),
        ("digest", "--diff", fifo, str(tmp_path)), ("verify-attestation", "--key", fifo, VALID),
    ):  # fmt: skip
        assert typed_here(*words).returncode == 2, words
    empty = typed_here("verify-attestation", "--key", str(tmp_path / "key.pub"), fifo)
    assert (empty.returncode, empty.stdout) == (1, b"") and b"it holds no attestation" in empty.stderr
    shell = ["bash", "-c", '"${@:2}" <(sleep 0.2; cat "$1")', "bash", VALID, *PROGRAM, "proof", "show"]
    shown = subprocess.run(shell, env=environment(), capture_output=True, timeout=60)
    assert shown.returncode == 0 and shown.stdout.startswith(f"run: {RUN_ID}\n".encode()), shown.stderr


def test_bind_keeps_the_proof_and_tells_whether_it_is_bound(repository: Path, tmp_path: Path) -> None:
    workspace = Path(shutil.copytree(repository, tmp_path / "workspace", symlinks=True))
    (workspace / ".loki/state").mkdir(parents=True)
    (workspace / ".loki/state/trust-run-id").write_text(RUN_ID)
    (workspace / ".loki/proofs" / RUN_ID).mkdir(parents=True)
    shutil.copy(VALID, workspace / ".loki/proofs" / RUN_ID / "proof.json")
    (tmp_path / "kept").mkdir(mode=0o700)
    asked = ("proof", "bind", str(workspace), "--into", str(tmp_path / "kept"), "--level", "fast")
    bound = typed_here(*asked)
    assert (bound.returncode, bound.stdout) == (0, b"")
    assert bound.stderr.decode().startswith(f"fable-exec: holds: {workspace}: VERIFIED, run {RUN_ID}, kept as ")
    assert (tmp_path / "kept/proof.json").read_bytes() == Path(VALID).read_bytes()
    (workspace / "later").write_text("x")
    finished = typed_here(*asked, "--json", "--baseline", RUN_ID)
    members = the_object(finished)
    assert (finished.returncode, members["ok"], members["bound"]) == (1, False, False)
    assert members["reasons"] == ["diff-drifted", "tree-drifted", "freshness-stale"]

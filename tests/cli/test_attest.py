"""`fable-exec attest` and `verify-attestation`: what they print, where, and with which exit status."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec.attest import (
    PREDICATE_TYPE,
    PROOF_SUBJECT,
    TREE_SUBJECT,
    Envelope,
    ExecutionFacts,
    PrivateKey,
    Statement,
    Subject,
    TreeFacts,
    attest,
    write_bundle,
)
from fable_exec.attest.attesting import sign
from fable_exec.attest.statements import PAYLOAD_TYPE
from fable_exec.cli.program import main
from fable_exec.supervisor import ExecutionSpec, Supervisor
from fable_exec.treedigest import tree_digest
from tests.cli.typed import environment, the_object, typed

Answer = tuple[int, str, str]
Type = Callable[..., Answer]


@pytest.fixture
def type_here(capfd: pytest.CaptureFixture[str]) -> Type:
    """A command line in this process: its status and both its outputs."""

    def type_it(*arguments: object) -> Answer:
        capfd.readouterr()
        status = main([str(each) for each in arguments])
        return status, *capfd.readouterr()

    return type_it


@attrs.frozen
class Made:
    """An execution that has ended, and a key."""

    root: Path
    execution_id: str
    workspace: Path
    key: Path
    public: Path


@pytest.fixture(scope="module")
def _original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    top = tmp_path_factory.mktemp("attest")
    (top / "work").mkdir()
    (top / "work/source").write_text("x")
    key = PrivateKey.generate()
    key.save(top / "key.pem")
    (top / "key.pub").write_text(key.public.pem)
    with Supervisor(top / "root") as supervisor:
        spec = ExecutionSpec(argv=("sh", "-c", "echo made > made; mkdir .fable; exit 3"), workspace=top / "work")
        started = supervisor.start(spec)
        supervisor.wait(started.execution_id, 30)
    yield Made(top / "root", started.execution_id, top / "work", top / "key.pem", top / "key.pub")


@pytest.fixture
def made(_original: Made) -> Iterator[Made]:
    """The same for every test, with its workspace as the run left it."""
    kept = _original.workspace.with_name("kept")
    shutil.copytree(_original.workspace, kept, symlinks=True)
    yield _original
    shutil.rmtree(_original.workspace)
    kept.rename(_original.workspace)


NEEDS_A_RUN = pytest.mark.requires_ability("confinement")


def attested(type_here: Type, made: Made, *options: object) -> bytes:
    status, out, err = type_here("attest", "--root", made.root, "--key", made.key, *options, made.execution_id)
    assert status == 0, err
    return out.encode()


def verified(type_here: Type, made: Made, data: bytes, *options: object) -> Answer:
    file = made.workspace.with_name("a.intoto.jsonl")
    file.write_bytes(data)
    return type_here("verify-attestation", "--key", made.public, *options, file)


@NEEDS_A_RUN
def test_a_run_is_attested_and_holds_for_its_workspace_until_that_changes(made: Made, type_here: Type) -> None:
    data = attested(type_here, made, "--materials", "D" * 64)
    assert data.count(b"\n") == 1 and data.endswith(b"\n")
    predicate = json.loads(Envelope.from_json(data).payload)["predicate"]
    assert (predicate["execution"]["id"], predicate["execution"]["exitCode"], predicate["bound"]) == (made.execution_id, 3, False)
    assert predicate["execution"]["argv"][:2] == ["sh", "-c"]
    assert predicate["execution"]["materialsSha256"] == "d" * 64
    assert {each["protection"] for each in predicate["execution"]["confinement"]} >= {"network", "host_writes"}
    assert (predicate["tree"]["engineDirectory"], predicate["tree"]["readAt"][-1]) == (".fable", "Z")
    status, out, err = verified(type_here, made, data, "--workspace", made.workspace)
    assert (status, out) == (0, "")
    assert err.startswith("fable-exec: holds: ") and "the run ended crashed, without a bound proof" in err
    (made.workspace / ".fable/log").write_text("of the engine")
    assert verified(type_here, made, data, "--workspace", made.workspace)[0] == 0
    (made.workspace / "made").write_text("something else")
    status, out, err = verified(type_here, made, data, "--workspace", made.workspace)
    assert (status, out) == (1, "")
    assert "REFUSED" in err and "(subject-differs)" in err


@NEEDS_A_RUN
def test_it_verifies_with_openssl_and_the_typed_program(made: Made, tmp_path: Path) -> None:
    finished = typed("attest", "--root", str(made.root), "--key", str(made.key), "--json", made.execution_id)
    members = the_object(finished)
    assert (finished.returncode, finished.stderr, members["ok"]) == (0, b"", True)
    envelope = Envelope.from_json(json.dumps(members["envelope"]).encode())
    assert members["sha256"] == tree_digest(made.workspace, engine_directory=".fable").sha256
    (tmp_path / "pae").write_bytes(envelope.signed_bytes)
    (tmp_path / "sig").write_bytes(envelope.signatures[0].value)
    argv = ["pkeyutl", "-verify", "-pubin", "-inkey", str(made.public), "-rawin", "-in", "pae", "-sigfile", "sig"]
    if shutil.which("openssl"):
        assert subprocess.run(["openssl", *argv], cwd=tmp_path, capture_output=True, env=environment()).returncode == 0
    (tmp_path / "file").write_bytes(write_bundle([envelope]))
    subject = f"{TREE_SUBJECT}={members['sha256']}"
    answer = typed("verify-attestation", "--json", "--key", str(made.public), "--subject", subject, str(tmp_path / "file"))
    [attestation] = the_object(answer)["attestations"]
    assert (answer.returncode, answer.stderr, attestation["ok"], attestation["bound"]) == (0, b"", True, False)
    assert attestation["signers"] == [members["keyid"]]


@NEEDS_A_RUN
def test_a_link_is_written_beside_it_and_never_over_another(made: Made, type_here: Type, tmp_path: Path) -> None:
    attested(type_here, made, "--link", f"build={tmp_path}")
    [path] = tmp_path.glob("build.*.link")
    found = json.loads(Envelope.from_json(path.read_bytes()).payload)
    assert (found["_type"], found["name"], found["byproducts"]) == ("link", "build", {"return-value": 3})
    assert set(found["products"]) == {"made", "source"}
    again = type_here("attest", "--root", made.root, "--key", made.key, "--link", f"build={tmp_path}", made.execution_id)
    assert again[0] == 1 and "exists" in again[2]


@NEEDS_A_RUN
def test_a_key_that_the_job_could_read_is_refused(made: Made, type_here: Type) -> None:
    inside = made.workspace / "key.pem"
    shutil.copy(made.key, inside)
    link = made.workspace.with_name("link")
    link.symlink_to(inside)
    for path in (inside, link):
        status, out, err = type_here("attest", "--root", made.root, "--key", path, made.execution_id)
        assert (status, out) == (2, "")
        assert "lies in the workspace" in err
    link.unlink()


@NEEDS_A_RUN
def test_what_cannot_be_attested_says_why(made: Made, type_here: Type, tmp_path: Path) -> None:
    nobody = "00000000-0000-4000-8000-000000000000"
    assert type_here("attest", "--root", made.root, "--key", made.key, nobody)[0] == 4
    open_key = tmp_path / "open.pem"
    shutil.copy(made.key, open_key)
    open_key.chmod(0o644)
    status, _, err = type_here("attest", "--root", made.root, "--key", open_key, made.execution_id)
    assert status == 5 and "0600" in err
    assert type_here("attest", "--root", made.root, "--key", tmp_path / "nothing", made.execution_id)[0] == 1
    assert type_here("attest", "--root", made.root, "--key", made.key, "--materials", "xyz", made.execution_id)[0] == 2
    with (made.workspace / "made").open("a"):
        status, out, err = type_here("attest", "--root", made.root, "--key", made.key, made.execution_id)
    assert (status, out) == (1, "") and "made" in err


@NEEDS_A_RUN
def test_what_has_not_ended_is_not_attested(made: Made, type_here: Type, workspace: Path) -> None:
    with Supervisor(made.root) as supervisor:
        running = supervisor.start(ExecutionSpec(argv=("sleep", "60"), workspace=workspace))
        status, out, err = type_here("attest", "--root", made.root, "--key", made.key, running.execution_id)
        supervisor.request_stop(running.execution_id)
        supervisor.wait(running.execution_id, 30)
    assert (status, out) == (2, "") and "has ended" in err


@pytest.fixture
def forged(tmp_path: Path, workspace: Path) -> dict[str, Any]:
    """An attestation that no supervisor is needed for: its file, its key, and what it is about."""
    key = PrivateKey.generate("p256")
    (tmp_path / "key.pub").write_text(key.public.pem)
    (tmp_path / "artifact").write_bytes(b"artifact")
    digest = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
    (tmp_path / "foo").write_bytes(b"foo")
    facts = ExecutionFacts(argv=("make",), policy_digest="c" * 64)
    envelope = attest(key, facts, TreeFacts(sha256=tree_digest(workspace).sha256), artifacts={"foo": digest})
    (tmp_path / "file").write_bytes(write_bundle([envelope]))
    return {
        "signer": key,
        "key": tmp_path / "key.pub",
        "file": tmp_path / "file",
        "envelope": envelope,
        "digest": digest,
        "top": tmp_path,
    }


def test_it_holds_only_for_what_is_named(forged: dict[str, Any], workspace: Path, type_here: Type) -> None:
    start = ("verify-attestation", "--key", forged["key"])
    status, _, err = type_here(*start, forged["file"])
    assert status == 1 and "(subject-unchecked)" in err
    for options in (
        ["--subject", f"foo={forged['digest']}"], ["--artifact", f"foo={forged['top'] / 'foo'}"], ["--workspace", workspace],
    ):  # fmt: skip
        assert type_here(*start, *options, forged["file"])[0] == 0, options
    for options, reason in (
        (["--subject", f"foo={'0' * 64}"], "subject-differs"),
        (["--subject", f"{PROOF_SUBJECT}={forged['digest']}"], "subject-missing"),
        (["--artifact", f"foo={forged['top'] / 'artifact'}"], "subject-differs"),
        (["--workspace", workspace, "--predicate-type", "https://slsa.dev/provenance/v1"], "predicate-type"),
        (["--workspace", forged["top"]], "subject-differs"),
    ):
        status, out, err = type_here(*start, *options, forged["file"])
        assert (status, out) == (1, "") and f"({reason})" in err, options


def test_one_changed_byte_another_key_and_a_second_signature_are_refused(
    forged: dict[str, Any], workspace: Path, type_here: Type
) -> None:
    start = ("verify-attestation", "--workspace", workspace)
    data = bytearray(forged["file"].read_bytes())
    data[len(data) // 2] ^= 1
    (forged["top"] / "edited").write_bytes(data)
    assert type_here(*start, "--key", forged["key"], forged["top"] / "edited")[0] == 1
    (forged["top"] / "other.pub").write_text(PrivateKey.generate().public.pem)
    status, _, err = type_here(*start, "--key", forged["top"] / "other.pub", forged["file"])
    assert status == 1 and "(unknown-key)" in err
    both = type_here(*start, "--key", forged["key"], "--key", forged["top"] / "other.pub", "--threshold", 2, forged["file"])
    assert both[0] == 1 and "(too-few-signatures)" in both[2]
    twice = attrs.evolve(forged["envelope"], signatures=forged["envelope"].signatures * 2)
    (forged["top"] / "twice").write_bytes(twice.to_json())
    status, _, err = type_here(*start, "--key", forged["key"], forged["top"] / "twice")
    assert status == 1 and "(duplicate-signature)" in err


def test_of_several_lines_one_must_hold_and_otherwise_each_says_why(
    forged: dict[str, Any], workspace: Path, type_here: Type
) -> None:
    good = forged["file"].read_bytes()
    start = ("verify-attestation", "--key", forged["key"], "--workspace", workspace)
    file = forged["top"] / "many"
    file.write_bytes(b"torn\n" + good)
    status, _, err = type_here(*start, file)
    assert status == 0 and err.count("\n") == 1
    members = json.loads(type_here(*start, "--json", file)[1])
    assert (members["ok"], [each["ok"] for each in members["attestations"]]) == (True, [False, True])
    file.write_bytes(b"torn\n" + good.replace(b"vnd.in-toto", b"vnd.in-toto2"))
    status, _, err = type_here(*start, file)
    assert status == 1 and ":1: " in err and ":2: " in err
    file.write_bytes(b"")
    assert type_here(*start, file) == (1, "", f"fable-exec: REFUSED: {file}: it holds no attestation\n")


@pytest.mark.parametrize(
    "rules",
    [{"engineDirectory": odd} for odd in ("a/b", "", ".", "..", "\0", "a\0b", 5)]
    + [{"profile": "loki-v3"}, {"profile": 5}, 5, None],
)
def test_a_statement_with_odd_rules_is_refused_and_hides_no_other(
    rules: Any, forged: dict[str, Any], workspace: Path, type_here: Type
) -> None:
    (workspace / "file").write_text("x")
    payload = Statement((Subject(TREE_SUBJECT, "0" * 64),), PREDICATE_TYPE, {"tree": rules}).to_json()
    odd = sign(forged["signer"], PAYLOAD_TYPE, payload)
    facts = ExecutionFacts(argv=("make",), policy_digest="c" * 64)
    good = attest(forged["signer"], facts, TreeFacts(sha256=tree_digest(workspace).sha256))
    start = ("verify-attestation", "--key", forged["key"], "--workspace", workspace)
    file = forged["top"] / "many"
    file.write_bytes(write_bundle([odd]))
    status, _, err = type_here(*start, file)
    assert status == 1 and "(subject-" in err and "defect" not in err, err
    file.write_bytes(write_bundle([odd, good]))
    assert type_here(*start, file)[0] == 0


def test_a_file_or_key_that_cannot_be_read_exits_2(forged: dict[str, Any], type_here: Type) -> None:
    nothing = forged["top"] / "nothing"
    assert type_here("verify-attestation", "--key", forged["key"], nothing)[0] == 2
    assert type_here("verify-attestation", "--key", nothing, forged["file"])[0] == 2
    status, _, err = type_here("verify-attestation", "--key", forged["file"], forged["file"])
    assert status == 2 and "neither an Ed25519 nor a P-256" in err
    assert type_here("verify-attestation", forged["file"])[0] == 2
    for subject in ("x", "=x", "x=", "x=12"):
        assert type_here("verify-attestation", "--key", forged["key"], "--subject", subject, forged["file"])[0] == 2
    twice = ["--subject", f"a={'0' * 64}", "--subject", f"a={'1' * 64}"]
    assert type_here("verify-attestation", "--key", forged["key"], *twice, forged["file"])[0] == 2
    tree = ["--subject", f"{TREE_SUBJECT}={'0' * 64}", "--workspace", forged["top"]]
    assert type_here("verify-attestation", "--key", forged["key"], *tree, forged["file"])[0] == 2
    both = ["--subject", f"foo={forged['digest']}", "--artifact", f"foo={forged['top'] / 'foo'}"]
    assert type_here("verify-attestation", "--key", forged["key"], *both, forged["file"])[0] == 2
    assert type_here("verify-attestation", "--key", forged["key"], "--threshold", 2, forged["file"])[0] == 2


def test_without_the_extra_it_says_what_to_install(forged: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "blocked/cryptography").mkdir(parents=True)
    (tmp_path / "blocked/cryptography/__init__.py").write_text("raise ModuleNotFoundError('none', name='cryptography')")
    path = f"{tmp_path / 'blocked'}{os.pathsep}{environment()['PYTHONPATH']}"
    finished = typed("verify-attestation", "--json", "--key", str(forged["key"]), str(forged["file"]), env={"PYTHONPATH": path})
    members = the_object(finished)
    assert (finished.returncode, members["ok"], members["code"]) == (1, False, "extra-missing")
    assert "fable-exec[sign]" in members["message"]

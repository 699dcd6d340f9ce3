"""A supervised run of a real small project that leaves a proof: bound or not, done or not, and every reason in its record."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec.attest import PROOF_SUBJECT, TREE_SUBJECT, PrivateKey, verify_attestation
from fable_exec.errors import InvalidRequest
from fable_exec.executions.documents import no_proof
from fable_exec.executions.holding import is_held
from fable_exec.executions.proofterms import ProofTerms
from fable_exec.policy import BrokerPolicy, Confinement
from fable_exec.proofbind import read_proof
from fable_exec.supervisor import Execution, ExecutionSpec, Supervisor
from fable_exec.treedigest import tree_digest
from tests.cli.typed import typed_here
from tests.proofbind.signed import PROOFS
from tests.waiting import LONG_SECONDS, until

pytestmark = pytest.mark.requires_ability("confinement", "git")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/prove_a_build.py"
AREA = "def area(width, height):\n    return width * height\n"
TEST = """import unittest
from area import area

class Test(unittest.TestCase):
    def test(self):
        self.assertEqual(area(2, 3), 6)
"""
GIT = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false")
PROVE = "python3 -B prove_a_build.py"
RUN = "run=$(cat .fable/state/trust-run-id); proof=.fable/proofs/$run/proof.json"
RESEALED = """python3 - <<'PROGRAM'
import hashlib, json, pathlib
path = next(pathlib.Path('.fable/proofs').glob('*/proof.json'))
made = json.loads(path.read_text())
del made['verification']
CHANGE
text = json.dumps(made, sort_keys=True, separators=(',', ':'))
made['verification'] = {'hash': hashlib.sha256(text.encode()).hexdigest()}
path.write_text(json.dumps(made))
PROGRAM
"""


def resealed(change: str) -> str:
    """A script that changes the proof and makes its hash right again."""
    return RESEALED.replace("CHANGE", change)


@pytest.fixture
def project(workspace: Path) -> Path:
    """A small project in a repository, with a change that is not committed."""
    (workspace / "area.py").write_text(AREA)
    (workspace / "test_area.py").write_text(TEST)
    (workspace / ".gitignore").write_text("__pycache__\n.fable\n")
    shutil.copy(EXAMPLE, workspace)
    for words in (("init", "-q"), ("add", "-A"), (*GIT, "commit", "-q", "-m", "base")):
        subprocess.run(["git", *words], cwd=workspace, check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})
    (workspace / "notes.txt").write_text("what is to be done\n")
    return workspace


@attrs.frozen
class Proving:
    """Runs jobs in the project that leave proofs."""

    supervisor: Supervisor
    project: Path

    def run(self, script: str, **more: Any) -> Execution:
        spec = ExecutionSpec(argv=("bash", "-c", script), workspace=self.project, **{"verdict": "proof", **more})
        return self.supervisor.wait(self.supervisor.start(spec).execution_id, LONG_SECONDS)


@pytest.fixture
def proving(supervisor: Supervisor, project: Path) -> Proving:
    """In a new project."""
    return Proving(supervisor, project)


def said(execution: Execution) -> tuple[str, int | None, bool, list[str]]:
    """Reason, status, whether the proof is bound, and all that stands against the work."""
    document = execution.document
    proof = document["proof"]
    return (
        document["termination_reason"], document["exit_code"], proof["bound"], [each["reason"] for each in proof["objections"]]
    )  # fmt: skip


def test_a_run_whose_proof_is_bound_and_says_so_is_complete(proving: Proving) -> None:
    execution = proving.run(PROVE)
    assert said(execution) == ("completed", 0, True, []), execution.document["proof"]
    document = execution.document
    assert document["run_id"] == (proving.project / ".fable/state/trust-run-id").read_text().strip()
    tree = tree_digest(proving.project, "loki-v3", engine_directory=".fable").sha256
    assert document["final_tree_sha256"] == document["proof"]["tree_sha256"] == tree
    kept = execution.directory / "proof.json"
    assert (document["proof"]["proof_path"], kept.stat().st_mode & 0o777) == (str(kept), 0o400)
    assert json.loads(read_proof(kept, document["proof"]["document_sha256"]))["run_id"] == document["run_id"]


FLIPPED = resealed("made['honesty']['headline'] = 'VERIFIED'")
GATE = resealed("made['facts']['quality_gates'][0]['status'] = 'failed'")
PAUSED = resealed(
    "made['facts']['execution']['run_status'] = 'paused'\n"
    "made['honesty'] = {'headline': 'NOT VERIFIED', 'degraded': [{'item': 'execution', 'status': 'failed', 'reason': ''}]}"
)
RENAMED = resealed("made['run_id'] = 'run-other'")

AFTERWARDS = {
    "the tree is changed": (f"{PROVE}; echo more >>notes.txt", False, ["diff-drifted", "tree-drifted"]),
    "the headline is flipped": (f"echo broken >area.py; {PROVE}; {FLIPPED}", False, ["headline-inconsistent"]),
    "a fact is edited": (f"{PROVE}; {RUN}; sed -i 's/unittest/pytest/' $proof", False, ["hash-mismatch"]),
    "a gate failed": (f"{PROVE}; {GATE}", False, ["headline-inconsistent", "degraded-hidden", "gates-failed"]),
    "it tells of a failure": (f"{PROVE}; {PAUSED}", True, ["headline-not-verified", "execution-failed"]),
    "another run's proof": (f"{PROVE}; {RENAMED}", False, ["run-id-other"]),
    "nothing was changed": (f"rm notes.txt; {PROVE}", True, ["headline-not-verified"]),
    "its tests fail": (f"echo broken >area.py; {PROVE}; true", True, ["headline-not-verified"]),
    "no proof": ("true", False, ["run-id-none"]),
    "no document": (f"{PROVE}; {RUN}; echo '{{' >$proof", False, ["document-not-json"]),
}


@pytest.mark.parametrize(("script", "is_bound", "against"), AFTERWARDS.values(), ids=AFTERWARDS)
def test_what_stands_against_the_work_is_told_whole(proving: Proving, script: str, is_bound: bool, against: list[str]) -> None:
    execution = proving.run(script)
    assert said(execution) == ("verification_failed", 0, is_bound, against), execution.document["proof"]


def test_a_proof_of_the_run_before_is_stale(proving: Proving) -> None:
    assert said(proving.run(PROVE))[0] == "completed"
    execution = proving.run("true")
    assert said(execution) == ("verification_failed", 0, False, ["freshness-stale"])


def test_the_first_new_run_sticks(proving: Proving) -> None:
    """What the job names later is not the run that it was on."""
    execution = proving.run(
        f"{PROVE}; {RUN}; sleep 1.5; echo run-2 >.fable/state/trust-run-id; cp -r .fable/proofs/$run .fable/proofs/run-2"
    )
    assert said(execution)[0] == "completed"
    assert execution.document["run_id"] != "run-2"


SWAPS = {
    "a copy": "cp -a . ../other",
    "a link to a copy": "cp -a . ../copy; ln -s copy ../other",
}


@pytest.mark.parametrize("other", SWAPS.values(), ids=SWAPS)
def test_another_directory_in_place_of_the_workspace_has_no_proof_of_the_job(other: str, proving: Proving) -> None:
    here = proving.project.name
    policy = BrokerPolicy(workspace=proving.project, allowed_executables=("bash",), confinement=Confinement.off())
    execution = proving.run(f"{PROVE}; {other}; cd ..; mv {here} moved; mv other {here}", policy=policy)
    assert said(execution) == ("verification_failed", 0, False, ["document-no-workspace"])
    assert "workspace-moved" in execution.document["proof"]["objections"][0]["detail"]


def test_an_unsigned_proof_is_none_where_a_signature_is_asked_for(proving: Proving) -> None:
    key = (PROOFS / "gpg/signer.pub.asc").read_text()
    execution = proving.run(PROVE, proof=ProofTerms(required=("diff", "signature"), gpg_keys=(key,)))
    assert said(execution) == ("verification_failed", 0, False, ["signature-absent"])


def test_nothing_is_looked_at_while_somebody_may_still_write(proving: Proving) -> None:
    execution = proving.run(f"{PROVE}; (setsid sleep 60 &)", descendant_grace_seconds=0.1)
    assert said(execution) == ("descendants_terminated", 0, False, ["document-survivors"])
    assert (execution.document["run_id"], execution.document["final_tree_sha256"]) == (None, None)
    assert not (execution.directory / "proof.json").exists()


@pytest.mark.parametrize(("script", "reason"), [("exit 3", "crashed"), ("exit 20", "verification_failed")])
def test_a_status_that_is_no_success_stays_one(proving: Proving, script: str, reason: str) -> None:
    execution = proving.run(f"{PROVE}; {script}")
    assert said(execution) == (reason, int(script.split()[1]), True, [])


def test_each_attempt_is_a_run_of_its_own(proving: Proving) -> None:
    execution = proving.run(f"{PROVE}; test -e again && exit 0; touch again; exit 1", restarts=1, restart_delay_seconds=0.0)
    assert (said(execution), execution.document["attempt"]) == (("completed", 0, True, []), 2)


def test_an_end_in_the_pause_before_another_attempt_says_that_nobody_looked(proving: Proving) -> None:
    execution = proving.run("exit 1", restarts=1, restart_delay_seconds=60, hard_timeout_seconds=2.0)
    assert said(execution) == ("crashed", 1, False, ["document-not-looked-for"])


def test_a_bound_execution_is_attested_with_the_key_that_was_given(proving: Proving, tmp_path: Path) -> None:
    key = PrivateKey.generate()
    key.save(tmp_path / "key.pem")
    execution = proving.run(PROVE, proof=ProofTerms(signing_key=tmp_path / "key.pem"))
    document = proving.supervisor.wait(execution.execution_id, LONG_SECONDS).document
    envelope = _read_soon(execution.directory / "attestation.intoto.jsonl")
    subjects = {TREE_SUBJECT: document["final_tree_sha256"], PROOF_SUBJECT: document["proof"]["document_sha256"]}
    result = verify_attestation(envelope, [key.public], subjects)
    assert result.ok, result
    assert (execution.directory / "attestation.intoto.jsonl").stat().st_mode & 0o777 == 0o600
    assert result.statement is not None
    told = result.statement.predicate
    assert (told["bound"], told["execution"]["terminationReason"], told["tree"]["readAt"]) == (True, "completed", None)
    assert (told["proof"]["runId"], told["tree"]["profile"]) == (document["run_id"], "loki-v3")
    again = typed_here(
        "attest", "--root", str(proving.supervisor.root), "--key", str(tmp_path / "key.pem"), execution.execution_id
    )
    assert verify_attestation(again.stdout, [key.public], subjects).ok, again.stderr
    assert not verify_attestation(envelope, [key.public], {**subjects, TREE_SUBJECT: "0" * 64}).ok


def test_what_is_not_bound_is_not_attested(proving: Proving, tmp_path: Path) -> None:
    PrivateKey.generate().save(tmp_path / "key.pem")
    execution = proving.run(f"{PROVE}; echo more >>notes.txt", proof=ProofTerms(signing_key=tmp_path / "key.pem"))
    assert said(execution)[0] == "verification_failed"
    until_gone(execution)
    assert not (execution.directory / "attestation.intoto.jsonl").exists()


def test_the_record_stands_where_there_is_no_key_to_attest_it(proving: Proving, tmp_path: Path) -> None:
    execution = proving.run(PROVE, proof=ProofTerms(signing_key=tmp_path / "missing.pem"))
    assert said(execution) == ("completed", 0, True, [])
    until_gone(execution)
    assert not (execution.directory / "attestation.intoto.jsonl").exists()
    assert "no attestation" in (execution.directory / "supervisor.log").read_text()


REFUSED: dict[str, tuple[Callable[[Path], dict[str, Any]], str]] = {
    "an axis": (lambda project: {"proof": ProofTerms(required=("nonsense",))}, "no 'nonsense'; there are document, "),
    "a profile": (lambda project: {"proof": ProofTerms(profile="nonsense")}, "no 'nonsense'; there are tree, "),
    "a key set": (lambda project: {"proof": ProofTerms(jwks="{")}, "the key set cannot be read"),
    "a key within reach": (lambda project: {"proof": ProofTerms(signing_key=project / "key")}, "must not lie in the workspace"),
    "another verdict": (lambda project: {"proof": ProofTerms(), "verdict": "exit-code"}, "proof is for the verdict 'proof'"),
    "a deep directory": (lambda project: {"engine_dir": "a/b"}, "engine_dir must be one name at the top"),
}  # fmt: skip


@pytest.mark.parametrize(("terms", "words"), REFUSED.values(), ids=REFUSED)
def test_what_makes_no_sense_is_refused_before_anything_is_accepted(
    proving: Proving, terms: Callable[[Path], dict[str, Any]], words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        proving.run("true", **terms(proving.project))


def test_the_record_has_the_same_members_where_there_is_no_proof(proving: Proving) -> None:
    execution = proving.run("true")
    assert {*no_proof("x", "y")} == {*execution.document["proof"]}
    plain = proving.run("(setsid sleep 60 &)", verdict="exit-code", descendant_grace_seconds=0.1)
    assert said(plain) == ("descendants_terminated", 0, False, ["document-not-asked"])
    missing = proving.supervisor.start(ExecutionSpec(argv=("no-such-program",), workspace=proving.project, verdict="proof"))
    assert said(missing)[2:] == (False, ["document-not-launched"])


def _read_soon(path: Path) -> bytes:
    until(path.exists)
    return path.read_bytes()


def until_gone(execution: Execution) -> None:
    """Until its keeper has left."""
    until(lambda: not is_held(execution.directory / "run.lock"))

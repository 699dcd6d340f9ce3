"""The proof of a run in its workspace: what binds, what does not and why, and what is kept of it."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fable_exec._sys.leases import Lease
from fable_exec.attest import TreeFacts
from fable_exec.errors import ProofNotBound, StateUnreadable
from fable_exec.pathguard import Workspace
from fable_exec.proofbind import Axis, BindingPolicy, DriftCheck, ProofBinding, bind, read_proof, read_run_id
from fable_exec.proofbind.drift import check_drift
from fable_exec.proofbind.signatures import GpgVerifier, PinnedKey
from fable_exec.proofbind.snapshots import keep_snapshot
from fable_exec.proofbind.verdict import record_members
from fable_exec.statefile import MAX_DOCUMENT_BYTES
from fable_exec.treedigest import tree_digest
from tests.proofbind.receipts import ABSENT, VALID, changed, gate
from tests.proofbind.repositories import RUN_ID, TREE, make_fixture
from tests.proofbind.signed import PROOFS

pytestmark = pytest.mark.requires_ability("git")

ENGINE = ".loki"
FAST = BindingPolicy(check=DriftCheck(level="fast"))


@attrs.frozen
class Run:
    """A run that has ended: its workspace, and where its proof is kept."""

    workspace: Path
    kept: Path

    @property
    def proof(self) -> Path:
        return self.workspace / ENGINE / "proofs" / RUN_ID / "proof.json"

    @property
    def state(self) -> Path:
        return self.workspace / ENGINE / "state/trust-run-id"

    def leaves(self, changes: Mapping[str, Any] | bytes = b"") -> bytes:
        raw = changes if isinstance(changes, bytes) else json.dumps(changed(changes), indent=2).encode()
        self.proof.parent.mkdir(parents=True, exist_ok=True)
        self.proof.write_bytes(raw)
        return raw

    def bound(self, **arguments: Any) -> ProofBinding:
        arguments.setdefault("policy", FAST)
        return bind(self.workspace, ENGINE, self.kept, **arguments)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make_fixture(tmp_path_factory.mktemp("fixture") / "repository")
    (made / ENGINE / "state").mkdir(parents=True)
    (made / ENGINE / "state/trust-run-id").write_text(f"{RUN_ID}\n")
    return made


@pytest.fixture
def run(repository: Path, tmp_path: Path) -> Run:
    workspace = Path(shutil.copytree(repository, tmp_path / "workspace", symlinks=True))
    (tmp_path / "kept").mkdir(mode=0o700)
    made = Run(workspace, tmp_path / "kept")
    made.leaves({})
    return made


def always_there(binding: ProofBinding) -> dict[str, Any]:
    """Its fields as they are recorded; all of them, whatever there was to find."""
    members: dict[str, Any] = json.loads(json.dumps(binding.members()))
    assert set(members) == {
        "present", "run_id", "headline", "tree_sha256", "document_sha256", "proof_path", "snapshotted", "snapshot_error",
        "tree_fields_agree", "execution", "failed_quality_gates", "integrity", "bound", "reason", "reasons", "axes",
    }  # fmt: skip
    assert members["bound"] is binding.bound is (not members["reasons"])
    assert members["reason"] == (members["reasons"] or [""])[0]
    return members


# What binds


def test_the_proof_of_this_run_and_this_tree_is_bound(run: Run) -> None:
    raw = run.leaves({})
    binding = run.bound(policy=None, baseline_run_id="run-before")
    members = always_there(binding)
    assert binding.require_bound() is binding
    assert (members["run_id"], members["headline"], members["tree_sha256"]) == (RUN_ID, "VERIFIED", TREE)
    assert members["document_sha256"] == hashlib.sha256(raw).hexdigest()
    assert members["execution"]["exit_code"] == 0 and members["execution"]["run_status"] == "completion_promise_fulfilled"
    assert members["integrity"]["ok"] is True and members["tree_fields_agree"] is True
    assert {name: answer["state"] for name, answer in members["axes"].items()} == {
        **dict.fromkeys([each.value for each in Axis], "pass"), "signature": "unchecked",
    }  # fmt: skip
    kept = Path(binding.proof_path)
    assert (kept, kept.read_bytes(), kept.stat().st_mode & 0o7777) == (run.kept / "proof.json", raw, 0o400)
    assert read_proof(binding.proof_path, binding.document_sha256) == raw
    with Workspace.open(run.workspace) as workspace:
        assert bind(workspace, ENGINE, run.kept, policy=FAST).bound  # again, in place of the first
        assert workspace.list().entries
    assert sorted(os.listdir(run.kept)) == ["proof.json"]


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({"run_id": "run-other"}, ("run-id-other",)),
        ({"run_id": ABSENT}, ("run-id-other",)),
        ({"tree_sha256": "0" * 64, "facts/git/tree_sha256": "0" * 64}, ("tree-drifted",)),
        ({"tree_sha256": "0" * 64}, ("tree-fields-disagree",)),
        ({"tree_sha256": "", "facts/git/tree_sha256": ""}, ("tree-not-recorded",)),
        ({"honesty/headline": "VERIFIED WITH GAPS"}, ("headline-inconsistent",)),
        ({"honesty/headline": ABSENT}, ("headline-not-recorded",)),
        ({"verification/hash": "0" * 64}, ("hash-mismatch",)),
        ({"schema_version": "2.0"}, ("schema-unsupported",)),
        ({"facts/git/diff_sha256": "0" * 64}, ("diff-drifted",)),
        ({"facts/git/base_sha": "main"}, ("diff-base-no-id",)),
        ({"cost/usd": None, "cost/available": False}, ("cost-incoherent",)),
        ({"verification/gpg_signature": "x"}, ("signature-unsupported",)),
        (
            {"run_id": "run-other", "schema_version": "2.0", "verification/hash": "0", "tree_sha256": "1"},
            ("schema-unsupported", "hash-mismatch", "tree-fields-disagree", "run-id-other"),
        ),
    ],
)  # fmt: skip
def test_a_proof_that_is_of_something_else_is_not_bound(changes: dict[str, Any], reasons: tuple[str, ...], run: Run) -> None:
    raw = run.leaves(changes)
    binding = run.bound()
    always_there(binding)
    assert (binding.bound, binding.reasons, binding.present, binding.snapshotted) == (False, reasons, True, True)
    assert read_proof(binding.proof_path, binding.document_sha256) == raw
    with pytest.raises(ProofNotBound) as refused:
        binding.require_bound()
    assert pickle.loads(pickle.dumps(refused.value)).reasons == reasons
    assert all(reason in str(refused.value) for reason in reasons)


def test_a_tree_that_was_changed_after_the_proof_is_another(run: Run) -> None:
    (run.workspace / "debug.log").write_text("later\n")
    assert run.bound().reasons == ("tree-drifted",)


def test_a_failed_run_can_have_a_proof_that_is_bound(run: Run) -> None:
    """It says so itself; what follows from that is for whoever asked."""
    run.leaves({
        "facts/execution/exit_code": 1, "facts/execution/run_status": "failed", "honesty/headline": "NOT VERIFIED",
        "honesty/degraded": [{"item": "execution", "status": "failed"}, {"item": "quality_gate:lint", "status": "failed"}],
        "facts/quality_gates": [gate("lint", "failed")], "quality_gates/gates": [gate("lint", "failed")],
    })  # fmt: skip
    binding = run.bound()
    assert (binding.bound, binding.headline, binding.failed_quality_gates) == (True, "NOT VERIFIED", ("lint",))
    assert binding.execution["exit_code"] == 1
    strict = BindingPolicy(required=[Axis.DIFF, Axis.EXECUTION, Axis.GATES], check=FAST.check)
    assert run.bound(policy=strict).reasons == ("execution-failed", "gates-failed")


# Whose run it is


@pytest.mark.parametrize(
    "raw",
    [b"", b"\n", b"other-1", b"run", b"run-a/b", b"run-..\\x", b"run-a\nrun-b", b"run-\0", b"run-\xff", b"run-" + b"x" * 300,
     b"RUN-1", b"run-\x1b[0m"],
)  # fmt: skip
def test_a_run_without_a_usable_name_has_no_proof(raw: bytes, run: Run) -> None:
    run.state.write_bytes(raw)
    binding = run.bound()
    always_there(binding)
    assert (binding.reasons, binding.run_id, binding.present) == (("run-id-none",), "", False)
    assert list(run.kept.iterdir()) == []


def test_a_run_id_that_leads_elsewhere_or_is_no_file_is_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(RUN_ID)
    run.state.unlink()
    assert run.bound().reasons == ("run-id-none",)
    run.state.symlink_to(tmp_path / "elsewhere")
    assert run.bound().reasons == ("run-id-none",)
    run.state.unlink()
    os.mkfifo(run.state)
    assert run.bound().reasons == ("run-id-none",)


def test_the_run_that_was_there_before_is_not_this_one(run: Run) -> None:
    with Workspace.open(run.workspace) as workspace:
        baseline = read_run_id(workspace, ENGINE)
    binding = run.bound(baseline_run_id=baseline)
    assert (baseline, binding.reasons, binding.snapshotted) == (RUN_ID, ("freshness-stale",), True)
    assert run.bound(baseline_run_id=f"{baseline}\n").reasons == ("freshness-stale",)
    run.proof.unlink()
    assert run.bound(baseline_run_id=baseline).reasons == ("document-absent", "freshness-stale")


@pytest.mark.requires_ability("gpg")
def test_a_signed_proof_of_an_older_run_that_was_put_back_is_not_of_this_one(run: Run) -> None:
    """Only the last run is remembered, but who signed also said when."""
    run.leaves((PROOFS / "gpg_valid.proof.json").read_bytes())
    key = PinnedKey(public_key=(PROOFS / "gpg/signer.pub.asc").read_bytes())
    policy = attrs.evolve(FAST, required={Axis.DIFF, Axis.SIGNATURE}, verifiers=[GpgVerifier(keys=[key])])
    bound = run.bound(policy=policy)
    assert bound.bound and bound.integrity is not None, bound.reasons
    (signed_at,) = (each.signed_at for each in bound.integrity.signatures if each.signed_at is not None)
    assert run.bound(policy=policy, started_at=signed_at + 300.0).bound
    assert run.bound(policy=policy, started_at=signed_at + 301.0).reasons == ("freshness-signed-before",)


def test_the_run_that_is_known_already_sticks(run: Run) -> None:
    run.state.write_text("run-later\n")
    assert run.bound(run_id=RUN_ID).bound
    assert run.bound().reasons == ("document-absent",)
    assert run.bound(run_id="../x").reasons == ("run-id-none",)


def test_an_engine_directory_is_one_name(run: Run) -> None:
    for wrong in ("", "..", "a/b"):
        with pytest.raises(ValueError, match="single name"):
            bind(run.workspace, wrong, run.kept)


# What is read, and kept


def _link(run: Run) -> None:
    run.proof.rename(run.workspace.parent / "outside.json")
    run.proof.symlink_to(run.workspace.parent / "outside.json")


def _linked_parent(run: Run) -> None:
    (run.workspace / ENGINE / "proofs").rename(run.workspace.parent / "proofs")
    (run.workspace / ENGINE / "proofs").symlink_to(run.workspace.parent / "proofs")


def _fifo(run: Run) -> None:
    run.proof.unlink()
    os.mkfifo(run.proof)


def _directory(run: Run) -> None:
    run.proof.unlink()
    run.proof.mkdir()


def _long(run: Run) -> None:
    run.proof.write_bytes(b" " * (4 * 1024 * 1024 + 1))


@pytest.mark.parametrize(
    ("make", "reason"),
    [(_link, "document-unreadable"), (_linked_parent, "document-unreadable"), (_fifo, "document-unreadable"),
     (_directory, "document-unreadable"), (_long, "document-too-long")],
)  # fmt: skip
def test_only_a_file_of_the_workspace_is_read(make: Any, reason: str, run: Run) -> None:
    make(run)
    binding = run.bound()
    always_there(binding)
    assert (binding.reasons, binding.present, binding.snapshotted) == ((reason,), True, False)
    assert list(run.kept.iterdir()) == []


def test_no_proof_is_told_apart_from_an_unreadable_one(run: Run) -> None:
    run.proof.unlink()
    assert (run.bound().reasons, run.bound().present) == (("document-absent",), False)
    shutil.rmtree(run.workspace / ENGINE / "proofs")
    (run.workspace / ENGINE / "proofs").write_text("a file")
    assert run.bound().reasons == ("document-absent",)
    assert bind(run.workspace / "nowhere", ENGINE, run.kept).reasons == ("document-no-workspace",)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff", b'{"a":1,"a":1}', b"[" * 100_000, b'{"a":' + b"9" * 5000 + b"}"])
def test_a_document_that_cannot_be_read_is_kept_all_the_same(raw: bytes, run: Run) -> None:
    run.leaves(raw)
    binding = run.bound()
    always_there(binding)
    assert (binding.present, binding.snapshotted, binding.bound) == (True, True, False)
    assert binding.document_sha256 == hashlib.sha256(raw).hexdigest()
    assert read_proof(binding.proof_path, binding.document_sha256) == raw
    assert binding.reason.startswith("document-")


@given(cut=st.integers(0, 6000), put=st.binary(min_size=1, max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_no_other_bytes_bind_and_none_raise(cut: int, put: bytes, run: Run) -> None:
    raw = bytearray((PROOFS / "valid_verified.proof.json").read_bytes())
    raw[cut : cut + len(put)] = put
    run.leaves(bytes(raw))
    binding = run.bound()
    assert always_there(binding)["document_sha256"] == hashlib.sha256(raw).hexdigest()
    assert not binding.bound or json.loads(raw) == VALID


def test_files_that_somebody_may_have_open_are_counted_and_attested(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fable_exec.treedigest.reading.take_read_lease", lambda _: Lease.UNKNOWN)
    check = DriftCheck(level="stable")
    binding = run.bound(policy=BindingPolicy(check=check))
    files = tree_digest(run.workspace, "loki-v3").unproven
    assert binding.bound and binding.drift is not None and binding.drift.tree_unproven == files > 0
    record = {"proof": record_members(binding, check), "final_tree_sha256": binding.tree_sha256, "engine_dir": f"/w/{ENGINE}"}
    assert TreeFacts.of_state(record).unproven == files


def test_a_record_has_room_for_whatever_stands_in_a_document(run: Run) -> None:
    wide = "\U0001f600" * 400
    everywhere = (
        "headline", "honesty/headline", "tree_sha256", "schema_version", "facts/execution/reason", "facts/execution/outcome",
        "facts/execution/run_status",
    )  # fmt: skip
    lists = {"honesty/degraded": [wide] * 200 + ["x"] * 40_000, "facts/quality_gates": [gate(wide, "failed")] * 200}
    run.leaves(dict.fromkeys(everywhere, wide) | lists)
    binding = run.bound()
    assert binding.integrity is not None and len(binding.integrity.degraded) == len(binding.failed_quality_gates) == 50
    assert len(json.dumps(binding.members(), indent=2)) < MAX_DOCUMENT_BYTES // 2


@pytest.mark.parametrize("name", sorted(path.name for path in PROOFS.glob("facts_*.proof.json")))
def test_facts_that_made_the_reference_raise_are_answered(name: str, run: Run) -> None:
    run.leaves((PROOFS / name).read_bytes())
    binding = run.bound()
    assert (binding.bound, binding.snapshotted) == (False, True)


@pytest.mark.parametrize("name", ["present", "file", "open", "inside"])
def test_a_proof_that_cannot_be_kept_is_not_bound(name: str, run: Run, tmp_path: Path) -> None:
    place = {"inside": run.workspace / "kept"}.get(name, tmp_path / "place")
    if name == "file":
        place.write_text("")
    if name in ("open", "inside"):
        place.mkdir(mode=0o700)
    if name == "open":
        place.chmod(0o755)
    binding = bind(run.workspace, ENGINE, place, policy=FAST)
    always_there(binding)
    assert (binding.present, binding.snapshotted, binding.reasons) == (True, False, ("document-no-snapshot",))
    assert binding.snapshot_error and binding.proof_path == "" and len(binding.document_sha256) == 64
    assert not place.is_dir() or list(place.iterdir()) == []


def test_what_a_dead_one_left_is_in_nobodys_way(run: Run) -> None:
    (run.kept / ".proof.json.unfinished").symlink_to(run.workspace / "a.txt")
    assert run.bound().bound
    assert sorted(os.listdir(run.kept)) == ["proof.json"]
    assert (run.workspace / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_what_is_judged_is_what_was_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what stands in the workspace by then, which is noticed too."""
    order: list[str] = []

    def kept_first(data: bytes, place: str) -> bytes:
        order.append("kept")
        kept = keep_snapshot(data, place)
        run.proof.write_bytes(b"{}")
        return kept

    def then_compared(*arguments: Any) -> Any:
        order.append("compared")
        assert (run.kept / "proof.json").exists()
        return check_drift(*arguments)

    monkeypatch.setattr("fable_exec.proofbind.binding.keep_snapshot", kept_first)
    monkeypatch.setattr("fable_exec.proofbind.binding.check_drift", then_compared)
    binding = run.bound()
    assert order == ["kept", "compared"]
    assert (binding.headline, binding.reasons) == ("VERIFIED", ("freshness-replaced",))


def test_a_snapshot_is_given_out_only_while_it_is_what_it_was(run: Run, tmp_path: Path) -> None:
    binding = run.bound()
    kept = Path(binding.proof_path)
    with pytest.raises(StateUnreadable) as other:
        read_proof(kept, "0" * 64)
    for odd in ("", "é", "\ud800", binding.document_sha256.upper()):
        with pytest.raises(StateUnreadable):
            read_proof(kept, odd)
    assert other.value.reason == "foreign"
    kept.chmod(0o600)
    kept.write_bytes(b"{}")
    with pytest.raises(StateUnreadable):
        read_proof(kept, binding.document_sha256)
    kept.chmod(0o644)
    with pytest.raises(StateUnreadable) as open_to_others:
        read_proof(kept, hashlib.sha256(b"{}").hexdigest())
    assert open_to_others.value.reason == "not-private"
    (tmp_path / "link").symlink_to(kept)
    with pytest.raises(OSError):
        read_proof(tmp_path / "link", binding.document_sha256)


# Policies


def test_a_policy_can_only_add_to_what_binding_means() -> None:
    least = BindingPolicy(required=())
    assert least.required == {Axis.TREE, Axis.TREE_FIELDS, Axis.RUN_ID, Axis.FRESHNESS}
    assert BindingPolicy().required == least.required | {Axis.DIFF}


def test_an_unsigned_proof_is_none_where_a_signature_is_asked_for(run: Run) -> None:
    policy = BindingPolicy(required=[Axis.SIGNATURE], check=FAST.check)
    assert run.bound(policy=policy).reasons == ("signature-absent",)


def test_a_plain_directory_binds_by_the_other_profile(tmp_path: Path) -> None:
    run = Run(tmp_path / "workspace", tmp_path / "kept")
    run.state.parent.mkdir(parents=True)
    run.kept.mkdir(mode=0o700)
    run.state.write_text(RUN_ID)
    (run.workspace / "file").write_text("x")
    run.proof.parent.mkdir(parents=True)
    digest = tree_digest(run.workspace, engine_directory=ENGINE).sha256
    run.leaves({"tree_sha256": digest, "facts/git/tree_sha256": digest})
    policy = BindingPolicy(required=(), check=DriftCheck(profile="tree", level="fast"))
    assert run.bound(policy=policy).bound
    assert run.bound(policy=attrs.evolve(policy, required=[Axis.DIFF])).reasons == ("diff-no-repository",)
    (run.workspace / "file").write_text("y")
    assert run.bound(policy=policy).reasons == ("tree-drifted",)


def test_long_texts_of_a_document_do_not_make_a_long_record(run: Run) -> None:
    run.leaves({"honesty/headline": "x" * 100_000, "facts/execution/reason": "y" * 100_000, "tree_sha256": "z" * 100_000})
    binding = run.bound()
    assert not binding.bound
    assert len(json.dumps(binding.members())) < 10_000
    assert VALID["run_id"] == binding.run_id

"""A document against a working tree: what counts as drift, and what is never taken for agreement."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fable_exec.pathguard import Workspace
from fable_exec.proofbind import Axis, AxisState, DriftCheck, VerificationResult, verify
from fable_exec.proofbind.canonical import canonical_sha256
from fable_exec.treedigest import tree_digest
from tests.proofbind.receipts import ABSENT, VALID, changed
from tests.proofbind.repositories import TREE, commit_all, git, make_fixture

pytestmark = pytest.mark.requires_ability("git")

GIT = "facts/git"
SOON = DriftCheck(level="fast")
"""Where nothing changes the tree meanwhile, it need not be waited for."""


@pytest.fixture(scope="module")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The repository of the vectors; tests that change it take `copied`."""
    yield make_fixture(tmp_path_factory.mktemp("fixture") / "repository")


@pytest.fixture
def copied(fixture: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(fixture, tmp_path / "copied", symlinks=True))


def checked(changes: Mapping[str, Any], repository: Path, **arguments: Any) -> VerificationResult:
    arguments.setdefault("check", SOON)
    return verify(json.dumps(changed(changes)).encode(), repository, **arguments)


def test_the_valid_receipt_is_ok_in_the_repository_that_it_is_of(fixture: Path) -> None:
    result = checked({}, fixture, check=None)
    assert (result.ok, result.reason, result.reasons) == (True, "", ())
    assert (result.diff_drift, result.tree_drift, result.schema_supported) == (False, False, True)
    assert (result.hash_ok, result.gpg_ok, result.generator_trusted) == (True, "n/a", True)
    assert (result.headline_consistent, result.cost_coherent) == (True, True)
    members = json.loads(json.dumps(result.members()))
    assert members["tree_recheck"] == {"recorded": TREE, "current": TREE}
    assert members["diff_recheck"]["current"] == VALID["facts"]["git"]["diff"]
    assert members["diff_recheck"]["current_diff_sha256"] == VALID["facts"]["git"]["diff_sha256"]
    assert members["axes"]["diff"] == {"state": "pass", "reason": "", "detail": ""}
    with Workspace.open(fixture) as workspace:
        assert verify(changed(), workspace, check=SOON).ok
        assert workspace.list().entries  # it stayed open


@pytest.mark.parametrize(
    ("changes", "reasons", "drift"),
    [
        ({f"{GIT}/base_sha": ABSENT}, ("diff-no-base",), (None, False)),
        ({f"{GIT}/base_sha": ""}, ("diff-no-base",), (None, False)),
        ({f"{GIT}/base_sha": 7}, ("diff-no-base",), (None, False)),
        ({f"{GIT}/base_sha": "main"}, ("diff-base-no-id",), (None, False)),
        ({f"{GIT}/base_sha": "1" * 40}, ("diff-base-missing",), (None, False)),
        ({f"{GIT}/diff/insertions": 5}, ("diff-drifted",), (True, False)),
        ({f"{GIT}/diff/count": 3}, ("diff-drifted",), (True, False)),
        ({f"{GIT}/diff/insertions": 6.0}, ("diff-not-recorded",), (None, False)),
        ({f"{GIT}/diff/deletions": False}, ("diff-not-recorded",), (None, False)),
        ({f"{GIT}/diff_sha256": "0" * 64}, ("diff-drifted",), (True, False)),
        ({f"{GIT}/diff_sha256": ""}, ("diff-drifted",), (True, False)),
        ({f"{GIT}/diff_sha256": 7}, ("diff-drifted",), (True, False)),
        ({f"{GIT}/diff_sha256": ABSENT}, (), (False, False)),
        ({f"{GIT}/diff_sha256": ABSENT, f"{GIT}/diff/files": ABSENT}, ("diff-numbers-only",), (None, False)),
        ({f"{GIT}/diff_sha256": ABSENT, f"{GIT}/diff/files": []}, ("diff-drifted",), (True, False)),
        ({f"{GIT}/diff/files": []}, (), (False, False)),
        ({f"{GIT}/head_sha": "0" * 40}, ("diff-head-moved",), (True, False)),
        ({f"{GIT}/head_sha": ABSENT}, (), (False, False)),
        ({f"{GIT}/tree_sha256": "0" * 64}, ("tree-drifted", "tree-fields-disagree"), (False, True)),
        ({"tree_sha256": "0" * 64}, ("tree-fields-disagree",), (False, False)),
        ({"tree_sha256": ["x"]}, ("tree-fields-malformed",), (False, False)),
        ({"tree_sha256": ABSENT}, (), (False, False)),
        ({f"{GIT}/tree_sha256": ABSENT}, (), (False, False)),
        ({f"{GIT}/tree_sha256": "", "tree_sha256": ""}, ("tree-not-recorded",), (False, None)),
        ({f"{GIT}/tree_sha256": TREE.upper(), "tree_sha256": ABSENT}, ("tree-drifted",), (False, True)),
        ({f"{GIT}/tree_manifest_version": 4}, ("tree-manifest-version",), (False, None)),
        ({"tree_manifest_version": True}, ("tree-manifest-version",), (False, None)),
        ({"tree_manifest_version": ABSENT, f"{GIT}/tree_manifest_version": None}, (), (False, False)),
        ({"schema_version": "2.0", f"{GIT}/head_sha": "x"}, ("schema-unsupported", "diff-head-moved"), (True, False)),
    ],
)
def test_what_the_document_says_is_compared(
    changes: dict[str, Any], reasons: tuple[str, ...], drift: tuple[bool | None, bool | None], fixture: Path
) -> None:
    result = checked(changes, fixture)
    of_drift = tuple(each for each in result.reasons if not each.startswith("headline-facts"))  # typed facts are their own axis
    assert (of_drift, (result.diff_drift, result.tree_drift)) == (reasons, drift)
    assert result.ok is (not result.reasons)
    for each in result.shortcomings:
        assert each.detail and each.state is not AxisState.PASS


def _edited(top: Path) -> None:
    """The numbers stay what they were: they are of lines, not of what is in them."""
    (top / "a.txt").write_text("one\ntwo\nfour\n")


def _longer(top: Path) -> None:
    (top / "a.txt").write_text("one\ntwo\nthree\nfour\n")


def _ignored_file(top: Path) -> None:
    (top / "debug.log").write_text("other\n")


def _committed(top: Path) -> None:
    commit_all(top)


def _removed(top: Path) -> None:
    (top / "src/run.sh").unlink()


def _executable(top: Path) -> None:
    (top / "new.txt").chmod(0o755)


@pytest.mark.parametrize(
    ("change", "drift"),
    [(_edited, (False, True)), (_longer, (True, True)), (_ignored_file, (False, True)), (_committed, (True, False)),
     (_removed, (True, True)), (_executable, (False, True))],
)  # fmt: skip
def test_what_changes_in_the_tree_is_drift(change: Any, drift: tuple[bool, bool], copied: Path) -> None:
    change(copied)
    result = checked({}, copied)
    assert (result.diff_drift, result.tree_drift, result.ok) == (*drift, False)


@pytest.mark.parametrize("place", ["no-repository", "nowhere", "below"])
def test_without_the_top_of_a_repository_nothing_is_verified(place: str, copied: Path, tmp_path: Path) -> None:
    if place == "no-repository":
        shutil.rmtree(copied / ".git")
    result = checked({}, {"no-repository": copied, "nowhere": tmp_path / "nowhere", "below": copied / "src"}[place])
    assert (result.ok, result.diff_drift, result.tree_drift) == (False, None, None)
    why = "no-workspace" if place == "nowhere" else "no-repository"
    assert result.reasons == (f"diff-{why}", f"tree-{why}")


def test_a_document_that_cannot_be_read_is_compared_with_nothing(fixture: Path) -> None:
    result = verify(b"[1]", fixture)
    assert (result.ok, result.reasons, result.drift) == (False, ("document-not-an-object",), None)
    assert (result.diff_drift, result.tree_drift, result.schema_supported) == (None, None, False)
    assert result.members()["diff_recheck"] is None


def test_a_plain_directory_can_have_a_tree_of_the_other_profile(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/file").write_text("x")
    digest = tree_digest(tmp_path / "tree", engine_directory=".engine").sha256
    check = DriftCheck(profile="tree", engine_directory=".engine")
    result = checked({f"{GIT}/tree_sha256": digest, "tree_sha256": digest}, tmp_path / "tree", check=check)
    assert (result.tree_drift, result.reasons) == (False, ("diff-no-repository",))


def test_a_caller_can_ask_for_more(fixture: Path) -> None:
    assert checked({}, fixture, required=[Axis.EXECUTION, Axis.GATES]).ok
    assert checked({}, fixture, required=[Axis.SIGNATURE]).reasons == ("signature-absent",)
    odd = checked({f"{GIT}/head_sha": "x"}, fixture, required=[Axis.GATES, Axis.FRESHNESS])
    assert odd.reasons == ("diff-head-moved", "freshness-not-asked")


def test_a_tree_that_somebody_may_be_changing_is_not_agreed_with(copied: Path) -> None:
    with (copied / "a.txt").open("a"):
        result = checked({}, copied, check=DriftCheck(level="sealed"))
    assert (result.ok, result.tree_drift) == (False, None)
    assert result.reasons[0].startswith("tree-unstable-")


def test_a_redacted_list_of_files_does_not_count_beside_its_digest(fixture: Path) -> None:
    """The digest is taken before names are made unreadable."""
    files = [{**each, "path": "[redacted]"} for each in VALID["facts"]["git"]["diff"]["files"]]
    assert checked({f"{GIT}/diff/files": files}, fixture).diff_drift is False
    digest = canonical_sha256({**VALID["facts"]["git"]["diff"], "files": files})
    assert checked({f"{GIT}/diff/files": files, f"{GIT}/diff_sha256": digest}, fixture).diff_drift is True


def test_no_program_of_the_workspace_is_run_for_a_verdict(copied: Path, tmp_path: Path) -> None:
    program = copied / ".git/program"
    program.write_text(f"#!/bin/sh\n: > {tmp_path}/mark\n")
    program.chmod(0o755)
    for name in ("core.fsmonitor", "diff.external", "filter.f.clean", "diff.d.textconv", "core.alternateRefsCommand"):
        git(copied, "config", name, str(program))
    (copied / ".git/info/attributes").write_text("* diff=d\n")
    shutil.copy(program, copied / ".git/hooks/post-index-change")
    assert checked({}, copied, check=None).ok
    assert not (tmp_path / "mark").exists()
    git(copied, "status")
    assert (tmp_path / "mark").exists()  # as it would have been


def test_what_nobody_foresaw_is_no_agreement_and_ends_nobody(fixture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def defective(*_: Any, **__: Any) -> None:
        raise RecursionError

    monkeypatch.setattr("fable_exec.proofbind.drift.diff_stat", defective)
    assert checked({}, fixture).reasons == ("diff-defect", "tree-defect")


@pytest.mark.parametrize("profile", ["loki-v3", "tree"])
@pytest.mark.parametrize("level", ["fast", "stable"])
def test_a_file_without_end_is_given_up_in_time(profile: str, level: str, copied: Path) -> None:
    with (copied / "endless").open("w") as file:
        file.truncate(1 << 42)
    began = time.monotonic()
    check = DriftCheck(profile=profile, level=level, tree_deadline_seconds=0.1)
    result = checked({"facts/git/diff": None}, copied, check=check)
    assert (result.reasons[-1], result.tree_drift) == ("tree-deadline", None)
    assert time.monotonic() - began < 60  # to read it all takes a quarter of an hour


def test_nothing_is_left_behind(fixture: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    before = sorted(os.walk(fixture))
    assert checked({}, fixture, check=DriftCheck(level="fast", scratch=scratch)).ok
    assert (list(scratch.iterdir()), sorted(os.walk(fixture))) == ([], before)

"""Every row of the path corpus: lexical ones under three profiles, resolution ones on every resolver."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fable_exec.errors import FableExecError, PathDenied, PathError
from fable_exec.pathguard import PathProfile, Workspace, WorkspacePath
from tests import abilities
from tests.pathguard import scenes

ROWS = scenes.rows("paths.jsonl")
LEXICAL = [row for row in ROWS if row["kind"] == "lexical"]
RESOLVE = [row for row in ROWS if row["kind"] == "resolve"]


def by_id(row: scenes.Row) -> str:
    return str(row["id"])


@pytest.mark.parametrize("profile", list(PathProfile))
@pytest.mark.parametrize("row", LEXICAL, ids=by_id)
def test_a_lexical_row_gets_its_answer(row: scenes.Row, profile: PathProfile) -> None:
    expected = row if profile is PathProfile.PORTABLE else row[profile.value]
    protected = row.get("policy", {}).get("protected", ())
    if expected["expect"] == "reject":
        with pytest.raises(PathDenied) as refusal:
            WorkspacePath.parse(row["input"], profile, protected)
        assert refusal.value.reason == expected["reason"]
        assert refusal.value.path == row["input"]
    else:
        path = WorkspacePath.parse(row["input"], profile, protected)
        assert list(path.components) == expected["normalized"]
        assert path.directory_required == row.get("dir_required", False) or profile is PathProfile.WINDOWS
        assert set(row.get("advisory", ())) <= set(path.advisories)


@pytest.mark.parametrize("row", [row for row in LEXICAL if row["posix"]["expect"] == "accept"], ids=by_id)
def test_a_name_that_may_be_opened_but_not_created_says_so(row: scenes.Row) -> None:
    path = WorkspacePath.parse(row["input"], PathProfile.POSIX)
    assert (path.creation_fault() is not None) == (row["posix"].get("create") == "reject")


@pytest.fixture
def root(workspace: Path) -> Iterator[Path]:
    yield workspace
    for directory, _, _ in os.walk(workspace):  # top down: what a row closed, the clean-up of the test run must enter
        os.chmod(directory, 0o700)
        for name in os.listdir(directory):
            path = os.path.join(directory, name)
            if not os.path.islink(path) and os.path.isdir(path):
                os.chmod(path, 0o700)


def skip_unless_possible(row: scenes.Row, root: Path) -> None:
    required = row.get("requires")
    if required == "non-root" and abilities.missing("ordinary_user"):
        pytest.skip(f"ability ordinary_user is missing: {abilities.missing('ordinary_user')}")
    if required == "case-sensitive":
        (root / "probe-case").touch()
        folding = (root / "PROBE-CASE").exists()
        (root / "probe-case").unlink()
        if folding:
            pytest.skip("the file system folds case")


def open_by(root: Path, resolver: str) -> Workspace:
    if resolver == "openat2" and (reason := abilities.missing("openat2")):
        pytest.skip(f"ability openat2 is missing: {reason}")
    return Workspace.open(root, resolver=resolver)


@pytest.mark.parametrize("resolver", [*scenes.RESOLVERS, "checked"])
@pytest.mark.parametrize("row", RESOLVE, ids=by_id)
def test_a_resolution_row_gets_its_answer(row: scenes.Row, resolver: str, root: Path) -> None:
    skip_unless_possible(row, root)
    scenes.build(root, row["setup"])
    before = scenes.snapshot(root.parent)
    with open_by(root, resolver) as workspace:
        if row["expect"] == "accept":
            scenes.perform(workspace, row["op"], row["input"], row.get("to"))
        else:
            with pytest.raises(FableExecError) as refusal:
                scenes.perform(workspace, row["op"], row["input"], row.get("to"))
            check_refusal(row, refusal.value)
            assert scenes.snapshot(root.parent) == before
    assert scenes.broken_facts(root, row.get("after", [])) == []
    assert not list(root.rglob(".fable-tmp-*"))


def check_refusal(row: scenes.Row, error: FableExecError) -> None:
    assert scenes.reason_of(error) == row["reason"]
    if isinstance(error, PathError):
        assert errno.errorcode[error.errno or 0] in row.get("errno_any", ()) or row["reason"] == "exists"
        assert error.filename == error.path
    else:
        assert isinstance(error, PathDenied)


def test_a_row_that_stats_a_link_hears_nothing_about_its_target(root: Path) -> None:
    (root.parent / "secret").write_bytes(b"x" * 1000)
    (root / "l").symlink_to("../secret")
    for resolver in scenes.RESOLVERS:
        with open_by(root, resolver) as workspace:
            entry = workspace.stat(WorkspacePath.parse("l"))
        assert (entry.kind.value, entry.size_bytes) == ("symlink", len("../secret"))

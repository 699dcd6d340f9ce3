"""Repositories that lie outside the workspace: what is said about them, and that what is advised works."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec import Confinement, ExecutionBroker
from tests.cli.typed import typed
from tests.confinement.places import in_modes
from tests.doors import TOKEN, opened, policy_for

pytestmark = pytest.mark.requires_ability("git", "landlock")
COMMIT = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "more"]


def git(where: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always", *arguments],
        cwd=where, check=True, capture_output=True,
    )  # fmt: skip


@pytest.fixture
def main(workspace: Path) -> Path:
    """A checkout with one commit."""
    (workspace / "sub").mkdir()
    for name in ("file", "sub/file"):
        (workspace / name).write_text("text\n")
    git(workspace, "init", "-q", ".")
    git(workspace, "add", ".")
    git(workspace, "commit", "-q", "-m", "first")
    return workspace


def linked(main: Path) -> Path:
    git(main, "worktree", "add", "-q", "../linked")
    return private(main.parent / "linked")


def private(directory: Path) -> Path:
    directory.chmod(0o700)
    return directory


def broker_over(workspace: Path, mode: str = "auto", *readable: Path, **more: Any) -> ExecutionBroker:
    confinement = attrs.evolve(Confinement.strict(), runtime_read_paths=tuple(map(str, readable)))
    policy = policy_for(workspace, launch=mode, allowed_executables=("git", "sh"), **{"confinement": confinement, **more})
    broker = ExecutionBroker(policy)
    broker.unlock_writes(TOKEN)
    return broker


@in_modes("slots", "plain")
def test_a_linked_worktree_is_said_to_have_its_repository_elsewhere_and_can_be_read_when_that_is_listed(
    main: Path, mode: str
) -> None:
    tree = linked(main)
    with broker_over(tree, mode) as broker:
        assert broker.execute_command(["git", "status"]).exit_code == 128
        (note,) = broker.probe().notes
        assert f"'{main}/.git'" in note and "confinement.runtime_read_paths" in note
    with broker_over(tree, mode, main / ".git") as broker:
        assert broker.probe().notes == ()
        (tree / "file").write_text("changed\n")
        assert broker.execute_command(["git", "status", "--short"]).stdout == " M file\n"
        assert broker.execute_command(["git", "log", "--format=%s"]).stdout == "first\n"
        assert "+changed" in broker.execute_command(["git", "diff"]).stdout
        assert not broker.execute_command([*COMMIT, "-a"]).success
    git(tree, "fsck")


@in_modes("slots", "plain")
def test_commits_work_in_a_worktree_below_the_main_checkout(main: Path, mode: str) -> None:
    git(main, "worktree", "add", "-q", ".worktrees/task")
    with broker_over(main, mode) as broker:
        assert broker.probe().notes == ()
        assert broker.execute_command(["sh", "-c", "echo more > new; git add new"], ".worktrees/task").success
        assert broker.execute_command(COMMIT, ".worktrees/task").success
        assert broker.execute_command(["git", "log", "--format=%s"], ".worktrees/task").stdout == "more\nfirst\n"
        assert broker.execute_command(["git", "log", "--format=%s"]).stdout == "first\n"


@in_modes("slots", "plain")
def test_commits_work_in_a_clone_that_reads_the_objects_of_another(main: Path, mode: str) -> None:
    git(main, "clone", "-q", "--shared", ".", "../clone")
    clone = private(main.parent / "clone")
    with broker_over(clone, mode) as broker:
        (note,) = broker.probe().notes
        assert f"'{main}/.git/objects'" in note
        assert not broker.execute_command(["git", "log"]).success
    before = sorted((main / ".git" / "objects").rglob("*"))
    with broker_over(clone, mode, main / ".git" / "objects") as broker:
        assert broker.probe().notes == ()
        assert broker.execute_command(["sh", "-c", "echo more > new; git add new"]).success
        assert broker.execute_command(COMMIT).success
    assert sorted((main / ".git" / "objects").rglob("*")) == before
    git(main, "pull", "-q", "../clone")
    assert (main / "new").read_text() == "more\n"


def test_a_submodule_and_a_subdirectory_are_noticed_too(main: Path) -> None:
    with broker_over(main / "sub") as broker:
        (note,) = broker.probe().notes
        assert f"'{main}'" in note and "cwd" in note
    git(main.parent, "init", "-q", "above")
    above = main.parent / "above"
    git(above, "submodule", "add", "-q", str(main), "module")
    with broker_over(private(above / "module")) as broker:
        (note,) = broker.probe().notes
        assert f"'{above}/.git/modules/module'" in note


def test_nothing_is_said_where_git_finds_everything_or_there_is_nothing(main: Path, tmp_path: Path) -> None:
    with broker_over(main) as broker:
        assert broker.probe().notes == ()
    with broker_over(linked(main), confinement=Confinement.off()) as broker:
        assert broker.probe().notes == ()
    for name, content in {"empty": None, "broken": "gitdir: /no/such/place\n", "nonsense": "\0"}.items():
        (tmp_path / name).mkdir(mode=0o700)
        if content is not None:
            (tmp_path / name / ".git").write_text(content)
        with broker_over(tmp_path / name) as broker:
            assert broker.probe().notes == ()


@pytest.mark.parametrize("kind", ["in_process", "spawned"])
def test_every_door_tells_it(main: Path, kind: str) -> None:
    with opened(kind, policy_for(linked(main))) as door:
        assert [str(main) in note for note in door.probe().notes] == [True]


def test_the_command_line_tells_it_after_git_has_failed(main: Path) -> None:
    tree = linked(main)
    failed = typed("run", "--workspace", str(tree), "--", "git", "status")
    assert failed.returncode == 128
    assert b"not a git repository" in failed.stderr
    assert f"fable-exec: the git repository of the workspace lies outside of it, in '{main}/.git'" in os.fsdecode(failed.stderr)
    other = typed("run", "--workspace", str(tree), "--", "false")
    assert (other.returncode, other.stderr) == (1, b"")
    shown = typed("probe", "--workspace", str(tree))
    assert "note" in os.fsdecode(shown.stdout + shown.stderr)

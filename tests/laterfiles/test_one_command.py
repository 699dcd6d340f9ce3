"""A sentry of one long command watches nothing: it holds no inotify instance, and its looks are full ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fable_exec.laterfiles import Sentry
from fable_exec.pathguard import Workspace


def inotify_instances() -> int:
    names = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    return sum(os.path.lexists(name) and os.readlink(name) == "anon_inode:inotify" for name in names)


@pytest.mark.parametrize("watched", [True, False])
def test_what_is_planted_is_found_with_an_inotify_instance_or_without(watched: bool, workspace: Path, tmp_path: Path) -> None:
    (workspace / ".envrc").write_text("the host's\n")
    before = inotify_instances()
    with Workspace.open(str(workspace)) as opened:
        sentry = Sentry(opened, str(tmp_path / "quarantine"), pinned=True, watched=watched)
        assert inotify_instances() - before == watched
        (workspace / "Makefile.host").write_text("")
        assert [Path(path).name for path, _ in sentry.before_command()] == [".envrc"]
        (workspace / "below").mkdir()
        (workspace / "below" / ".envrc").write_text("planted\n")
        found = sentry.after_command()
        assert [each.path for each in found] == ["below/.envrc"]
        assert not (workspace / "below" / ".envrc").exists()
        assert (workspace / ".envrc").read_text() == "the host's\n"
        sentry.before_command()
        (workspace / ".envrc-not").write_text("")
        assert sentry.after_command() == ()
        sentry.close()
    assert inotify_instances() == before


@pytest.mark.parametrize("watched", [True, False])
def test_between_two_commands_what_the_host_makes_is_accepted(watched: bool, workspace: Path, tmp_path: Path) -> None:
    with Workspace.open(str(workspace)) as opened:
        sentry = Sentry(opened, str(tmp_path / "quarantine"), pinned=True, watched=watched)
        sentry.before_command()
        assert sentry.after_command() == ()
        (workspace / ".envrc").write_text("the host's\n")
        assert [Path(path).name for path, _ in sentry.before_command()] == [".envrc"]
        assert sentry.after_command() == ()
        assert (workspace / ".envrc").exists()
        sentry.close()


@pytest.mark.parametrize("watched", [True, False])
def test_what_a_repository_of_the_host_lost_is_told(watched: bool, workspace: Path, tmp_path: Path) -> None:
    for repository in ("one", "two", "without"):
        for name in ("objects", "refs")[: 0 if repository == "without" else 2]:
            (workspace / repository / ".git" / name).mkdir(parents=True)
        (workspace / repository / ".git").mkdir(parents=True, exist_ok=True)
        (workspace / repository / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    with Workspace.open(str(workspace)) as opened:
        sentry = Sentry(opened, str(tmp_path / "quarantine"), pinned=True, watched=watched)
        sentry.before_command()
        (workspace / "one" / ".git" / "objects").rmdir()
        assert [(each.path, each.detail) for each in sentry.after_command()] == [("one/.git", "lost its objects")]
        sentry.before_command()
        assert sentry.after_command() == ()
        sentry.close()


def test_another_one_goes_on_from_what_one_knew(workspace: Path, tmp_path: Path) -> None:
    """As the keeper of a job does, whose starter looked around before: a look of its own would accept what is planted."""
    (workspace / ".envrc").write_text("the host's\n")
    (workspace / ".git" / "hooks").mkdir(parents=True)
    for name in ("objects", "refs"):
        (workspace / ".git" / name).mkdir()
    (workspace / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    quarantine = str(tmp_path / "quarantine")
    with Workspace.open(str(workspace)) as opened:
        first = Sentry(opened, quarantine, pinned=True, watched=False)
        first.before_command()
        memory = first.memory()
    (workspace / "below").mkdir()
    (workspace / "below" / ".envrc").write_text("planted\n")
    (workspace / ".git" / "hooks" / "pre-commit").write_text("planted\n")
    (workspace / ".git" / "refs").rmdir()
    with Workspace.open(str(workspace)) as opened:
        second = Sentry(opened, quarantine, pinned=True, watched=False, memory=memory)
        found = sorted((each.path, each.done) for each in second.after_command())
        assert found == [(".git", "left"), (".git/hooks/pre-commit", "quarantined"), ("below/.envrc", "quarantined")]
        assert [path for path, _ in second.before_command()] == [path for path, _ in first._known.pins]
        assert second.after_command() == ()

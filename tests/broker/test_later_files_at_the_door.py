# ruff: noqa: E501 - tables of paths and scripts
"""File requests and files that run later: nothing is written that a command could not have left, and everything can be read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fable_exec import BrokerPolicy, Confinement, ExecutionBroker, PathDenied
from fable_exec.policy import Protections
from tests.confinement.places import NEEDS, Tree, run
from tests.doors import DOORS, TOKEN, opened, policy_for

pytestmark = pytest.mark.requires_ability("linux", "git")
_GIT = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
_LENIENT: dict[str, Any] = dict.fromkeys(
    ("workspace_writes", "host_writes", "host_reads", "network", "host_sockets", "whole_tree_end", "kernel_surface"), "degradable"
)


def policy(workspace: Path, **more: Any) -> BrokerPolicy:
    protections = Protections(**_LENIENT, **more.pop("protections", {}))
    confinement = Confinement(protections=protections, **more.pop("confinement", {}))
    return policy_for(workspace, confinement=confinement, allowed_executables=("sh", "git"), **more)


@contextmanager
def unlocked(workspace: Path, **more: Any) -> Iterator[ExecutionBroker]:
    with ExecutionBroker(policy(workspace, **more)) as broker:
        broker.unlock_writes(TOKEN)
        yield broker


@pytest.fixture
def host(workspace: Path) -> Path:
    """A workspace of the host's: a repository, a bare one, configured hooks, links to what counts."""
    script = """
    git init -q; git init -q sub/r; git init -q --bare b.git; git config core.hooksPath .husky; mkdir .husky; echo x > .husky/update
    mkdir -p tools .vscode .claude .hg plain sub/plain; echo x > tools/tasks.json; ln -s tools .idea; echo x > .envrc
    echo x > .vscode/tasks.json; echo x > .mcp.json; echo x > .hg/hgrc; echo x > plain/f; mkdir free; echo x > free/f; echo x > shared; ln -s shared .profile
    echo x > .git/hooks/pre-commit; echo ../plain > plain/pointer; echo 'gitdir: ../sub/r/.git' > sub/plain/.git
    chmod -R go-w .
    """
    subprocess.run(["bash", "-ec", script], cwd=workspace, check=True, env=_GIT)
    return workspace


NEW = {
    "git-hooks": ".git/hooks/post-commit", "git-hooks in another spelling": ".GIT/Hooks/post-commit",
    "git-hooks of a bare repository": "b.git/hooks/update", "git-hooks that are configured": ".husky/pre-commit",
    "git-config": ".git/config.worktree", "git-config of a bare repository": "b.git/config.worktree",
    "git-config of a module": ".git/modules/m/config", "git-pointer": "plain/.git", "git-pointer, commondir": "sub/r/.git/commondir",
    "vcs-config": ".hg/hgrc-not-shared", "shell-startup": "plain/.zshrc", "shell-startup below": "new/deep/.envrc",
    "editor-tasks": ".vscode/settings.json", "editor-tasks in a new directory": "plain/.zed/tasks.json",
    "editor-tasks behind a link of the host": "tools/launch.json", "agent-config": "plain/.claude/commands/x.md",
    "agent-config at the top": "opencode.json",
}  # fmt: skip
EXISTING = [
    ".git/hooks/pre-commit", ".git/config", "b.git/config", ".husky/update", ".envrc", ".vscode/tasks.json", ".mcp.json", ".hg/hgrc",
    "tools/tasks.json", "shared", "sub/plain/.git",
]  # fmt: skip


def refused(act: Callable[[], object]) -> None:
    with pytest.raises(PathDenied) as caught:
        act()
    assert caught.value.reason == "runs-later"
    assert "planted_files" in str(caught.value)


@pytest.mark.parametrize("path", NEW.values(), ids=NEW.keys())
def test_nothing_that_would_run_later_comes_into_being(host: Path, path: str) -> None:
    before = Tree.of(host)
    with unlocked(host) as broker:
        refused(lambda: broker.write_file(path, "evil"))
        refused(lambda: broker.append(path, "evil"))
        refused(lambda: broker.move_path("plain/f", path))
        if path != "plain/.git":  # as a directory that is none of them
            refused(lambda: broker.move_path("free", path))
    assert before.changes(Tree.of(host)) == []


@pytest.mark.parametrize("path", EXISTING)
def test_what_runs_later_is_read_and_not_changed(host: Path, path: str) -> None:
    before = Tree.of(host)
    with unlocked(host) as broker:
        content = broker.inspect_files(path).content
        refused(lambda: broker.write_file(path, "evil"))
        refused(lambda: broker.append(path, "evil"))
        refused(lambda: broker.edit_file(path, content, "evil"))
        refused(lambda: broker.move_path("plain/f", path, replace=True))
        refused(lambda: broker.move_path(path, "plain/elsewhere"))
        refused(lambda: broker.remove_path(path))
        assert broker.stat_path(path).kind == "file"
    assert before.changes(Tree.of(host)) == []


@pytest.mark.parametrize(
    "path", [".git/hooks/d", ".vscode/d", "plain/.vscode", "plain/.claude/x", ".husky/_", ".ssh", "b.git/hooks/d"]
)
def test_no_directory_that_would_count_is_made(host: Path, path: str) -> None:
    with unlocked(host) as broker:
        refused(lambda: broker.make_directory(path))


@pytest.mark.parametrize("path", [".git", ".vscode", "sub", "sub/r", "sub/plain", "b.git", ".husky", "tools", ".git/hooks"])
def test_a_directory_that_holds_what_runs_later_of_the_host_stays(host: Path, path: str) -> None:
    before = Tree.of(host)
    with unlocked(host) as broker:
        refused(lambda: broker.move_path(path, "elsewhere"))
        refused(lambda: broker.remove_path(path, recursive=True))
    assert before.changes(Tree.of(host)) == []


def test_a_directory_does_not_bring_such_a_file_to_where_it_counts(host: Path) -> None:
    with unlocked(host) as broker:
        for name in ("x/hooks/update", "y/HEAD", "y/objects/p"):
            broker.write_file(name, "x")
        refused(lambda: broker.move_path("x", "new/.git"))
        refused(lambda: broker.move_path("x", ".git/modules/m"))
        refused(lambda: broker.move_path("x/hooks", "b.git/hooks", replace=True))
        refused(lambda: broker.move_path("x/hooks", "sub/r/.git/worktrees/w/hooks"))
        broker.move_path("x", "z")
        broker.move_path("y", "z/y")


def test_no_git_directory_is_put_together(host: Path) -> None:
    """Piece by piece, in any order, whatever was written there before: the last piece is refused."""
    pieces: dict[str, Callable[[ExecutionBroker], object]] = {
        "HEAD": lambda broker: broker.write_file("n/HEAD", "ref: refs/heads/m"),
        "objects": lambda broker: broker.make_directory("n/objects"),
        "refs": lambda broker: broker.write_file("n/refs/heads/m", "x"),
        "refs, moved": lambda broker: broker.move_path("m/refs", "n/refs"),
    }
    for order in (
        ("HEAD", "objects", "refs"),
        ("refs", "HEAD", "objects"),
        ("objects", "refs", "HEAD"),
        ("HEAD", "objects", "refs, moved"),
    ):
        with unlocked(host) as broker:
            broker.write_file("n/config", "[core]\n\tfsmonitor = evil\n")
            broker.write_file("n/hooks/update", "evil")
            broker.write_file("m/refs/x", "x")
            for piece in order[:-1]:
                pieces[piece](broker)
            refused(lambda order=order, broker=broker: pieces[order[-1]](broker))
            broker.remove_path("n", recursive=True)
            broker.remove_path("m", recursive=True)


def test_two_requests_at_once_put_no_git_directory_together(workspace: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with unlocked(workspace) as broker, ThreadPoolExecutor(3) as threads:
        for number in range(30):
            acts = [
                lambda at=number: broker.write_file(f"{at}/HEAD", "x"),
                lambda at=number: broker.make_directory(f"{at}/objects"),
                lambda at=number: broker.make_directory(f"{at}/refs"),
            ]
            broker.write_file(f"{number}/config", "evil")
            outcomes = [each.exception() for each in [threads.submit(act) for act in acts]]
            assert sum(isinstance(each, PathDenied) for each in outcomes) == 1, outcomes


def test_the_hosts_configuration_counts_as_soon_as_it_is_there(host: Path) -> None:
    with unlocked(host) as broker:
        broker.write_file("later/pre-commit", "x")
        subprocess.run(["git", "config", "core.hooksPath", "later"], cwd=host, check=True, env=_GIT)
        refused(lambda: broker.write_file("later/pre-commit", "evil"))


ORDINARY = [
    "Makefile", "src/config", "src/hooks/useThing.ts", "src/config/index.ts", ".gitignore", ".gitattributes", ".github/workflows/x.yml", "package.json",
    ".env", "plain/HEAD", "refs/x", "objects", ".git/description", "sub/r/f",
]  # fmt: skip


@pytest.mark.parametrize("path", ORDINARY)
def test_everything_else_is_written_moved_and_removed(host: Path, path: str) -> None:
    with unlocked(host) as broker:
        broker.write_file(path, "x")
        broker.append(path, "y")
        broker.edit_file(path, "x", "z")
        broker.move_path(path, "plain/elsewhere")
        broker.move_path("plain/elsewhere", path)
        broker.remove_path(path)


@pytest.mark.parametrize("kind", sorted(DOORS))
def test_the_reason_is_told_behind_every_door(kind: str, host: Path) -> None:
    with opened(kind, policy(host), unlocked=True) as door:
        refused(lambda: door.write_file(".git/hooks/update", "evil"))
    assert not (host / ".git/hooks/update").exists()


@pytest.mark.parametrize(
    "more", [{"confinement": {"planted_files": "report"}}, {"protections": {"later_files": "off"}}], ids=["report", "off"]
)
def test_where_commands_may_leave_such_files_requests_may_write_them(host: Path, more: dict[str, Any]) -> None:
    with unlocked(host, **more) as broker:
        broker.write_file(".vscode/settings.json", "x")
        broker.move_path("sub", "bus")
        broker.remove_path("bus", recursive=True)


@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=pytest.mark.requires_ability(*needs)) for mode, needs in NEEDS.items()]
)
def test_what_commands_made_is_removed_by_a_request_and_not_written(mode: str, host: Path) -> None:
    with unlocked(host, launch=mode) as broker:
        run(broker, "git", "init", "-q", "n")
        refused(lambda: broker.write_file("n/.git/config", "evil"))
        refused(lambda: broker.move_path("n", "elsewhere"))
        broker.write_file("n/f", "x")
        run(broker, "git", "-C", "n", "config", "user.name", "x")
        broker.remove_path("n", recursive=True)
        refused(lambda: broker.remove_path("sub/r", recursive=True))
    assert not (host / "n").exists()

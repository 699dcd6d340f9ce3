# ruff: noqa: E501 - scripts, one a line
"""What the host has counts too: its settings, its links, its repositories; and it is never taken for planted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fable_exec.laterfiles import Kind
from tests.laterfiles.conftest import Guarded


def test_the_hosts_hooks_path_counts_before_it_exists(guarded: Guarded) -> None:
    guarded.host(
        "git init -q; git config core.hooksPath .githooks; git init -q r; git -C r config core.hooksPath $PWD/absolute/h"
    )
    assert set(guarded.planted("mkdir -p .githooks absolute/h; echo x > .githooks/pre-commit; echo x > absolute/h/update")) == {
        ".githooks/pre-commit", "absolute/h/update",
    }  # fmt: skip


def test_the_hosts_hooks_path_counts_in_every_work_tree(guarded: Guarded) -> None:
    guarded.host("git init -q; git commit -q --allow-empty -m x; git worktree add -q w; git config core.hooksPath .husky/_")
    assert set(guarded.planted("mkdir -p .husky/_ w/.husky; echo x > .husky/pre-commit; echo x > .husky/_/h; echo x > w/.husky/h")) == {
        ".husky/pre-commit", ".husky/_", "w/.husky/h",
    }  # fmt: skip


def test_a_repository_around_the_workspace_counts(workspace: Path, make_guarded: Callable[..., Guarded]) -> None:
    guarded = make_guarded(None)
    guarded.host("cd ..; git init -q; git config core.hooksPath workspace/hooks")
    assert guarded.planted("mkdir hooks; echo x > hooks/pre-commit") == {"hooks/pre-commit": "quarantined"}


def test_the_target_of_the_hosts_links_counts(pinned: Guarded) -> None:
    pinned.host(
        "echo x > shared; ln -s shared .envrc; mkdir -p tools; ln -s tools .vscode; git init -q; rm -r .git/hooks; mkdir gh; ln -s ../gh .git/hooks"
    )
    output, found = pinned.command("echo evil > shared; echo evil > tools/tasks.json; echo evil > gh/pre-commit")
    assert output.count("Read-only") == 3
    assert found == ()


def test_a_workspace_that_is_a_bare_repository(guarded: Guarded) -> None:
    guarded.host("git init -q --bare .")
    found = guarded.planted(
        "echo x > hooks/update; echo '[core] pager = evil' >> config; echo x > .envrc; mkdir d; echo x > d/.envrc"
    )
    assert {".envrc", "d/.envrc"} <= set(found)
    assert not guarded.exists("hooks/update") and (guarded.mode is None or "evil" not in (guarded.path / "config").read_text())


def test_what_the_host_has_is_not_taken_for_planted(guarded: Guarded) -> None:
    """A command can make directories be looked into again; the host's own files in there are no news."""
    guarded.host("echo x > .envrc; git init -q; git config core.fsmonitor mine; mkdir a; echo x > a/.mcp.json")
    assert guarded.planted("mkdir objects refs; echo x > HEAD; chmod 700 a; touch .") == {}
    assert "mine" in (guarded.path / ".git/config").read_text() and guarded.exists(".envrc") and guarded.exists("a/.mcp.json")


def test_what_the_host_makes_between_two_commands_is_accepted(guarded: Guarded) -> None:
    guarded.command("true")
    guarded.host(
        "echo x > .envrc; git init -q r; echo x > r/.git/hooks/update; git -C r config core.fsmonitor mine; mkdir .vscode"
    )
    assert guarded.planted("true") == {}
    assert guarded.exists("r/.git/hooks/update") and guarded.exists(".envrc")


def test_two_commands_at_once_hide_nothing_from_each_other(swept: Guarded) -> None:
    swept.sentry.before_command()
    assert set(swept.planted("echo x > .envrc")) == {".envrc"}
    swept.host("echo x > .zshrc; git init -q r; git -C r config core.pager x")
    assert {each.path for each in swept.sentry.after_command()} == {".zshrc", "r/.git/config"}
    assert swept.planted("true") == {}


def test_the_loss_of_a_repository_of_the_host_is_reported(guarded: Guarded) -> None:
    guarded.host("git init -q r; git -C r commit -q --allow-empty -m x")
    _, found = guarded.command("rm -rf r/.git; git init -q n; rm -rf n")
    assert [(each.path, each.kind, each.done) for each in found if each.kind is Kind.GIT_REPOSITORY] == [
        ("r/.git", Kind.GIT_REPOSITORY, "left")
    ]


def test_names_outside_of_a_later_file_are_pointed_out_at_the_start(swept: Guarded) -> None:
    swept.host(
        "echo x > .envrc; ln .envrc ../outside; git init -q; ln .git/hooks/update.sample ../sample; echo x > .git/hooks/update; ln .git/hooks/update u"
    )
    assert {each.path for each in swept.sentry.warnings} == {".envrc"}


def test_a_question_between_commands_does_not_look_through_everything_where_nothing_is_watched(swept: Guarded) -> None:
    swept.host("git init -q --bare b")
    sentry = swept.sentry
    sentry._watch.close()
    entered = sentry._scanner._entered
    calls: list[tuple[str, ...]] = []
    sentry._scanner._entered = lambda directory: calls.append(directory) or entered(directory)  # type: ignore[method-assign]  # to count the calls
    assert sentry.kind_at(("b", "config"), is_directory=False) is Kind.GIT_CONFIG
    assert sentry.kind_at(("c", "config"), is_directory=False) is None
    assert calls == []

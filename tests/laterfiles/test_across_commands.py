# ruff: noqa: E501 - tables of scripts, one a line
"""What commands made is theirs in later commands too, as far as it is harmless; what the host has, or has touched, is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.laterfiles.conftest import Guarded

EVERYDAY = {
    "a clone is worked in and removed": [
        "git clone -q origin c", "cd c; echo 1 > f; git add f; git commit -q -m 1", "git -C c push -q; git -C c pull -q",
        "git -C c status; git -C c gc -q", "rm -r c || rm -rf c; [ ! -e c ]", "git clone -q origin c", "rm -rf c; [ ! -e c ]",
    ],
    "a repository is configured": [
        "git init -q r", "git -C r config user.name x", "git -C r remote add o https://example.com/x.git", "git init -q r",
        "cd r; git commit -q --allow-empty -m x; git checkout -q -b b; git branch -u b main 2>/dev/null || git branch -m b2",
        "git -C r remote remove o; git -C r config --unset user.name", "mv r s; git -C s commit -q --allow-empty -m y", "rm -rf s; [ ! -e s ]",
    ],
    "a work tree of the host's repository": [
        "cd h; git worktree add -q ../w", "cd w; echo 1 > f; git add f; git commit -q -m 1", "git -C h worktree list",
        "git -C h worktree move ../w ../v", "git -C v status", "git -C h worktree remove ../v; [ ! -e v ]", "git -C h worktree add -q ../w", "rm -rf w; git -C h worktree prune",
    ],
    "a work tree of a clone": [
        "git clone -q origin c", "git -C c worktree add -q ../w", "git -C w commit -q --allow-empty -m x", "git -C c worktree remove ../w", "rm -rf c; [ ! -e c ]",
    ],
    "submodules": [
        "git clone -q origin c", "cd c; git -c protocol.file.allow=always submodule add -q ../origin s; git commit -q -m s",
        "git -C c/s commit -q --allow-empty -m x", "cd c; git submodule status; git submodule sync -q", "cd c; git submodule deinit -q -f s; git rm -q -f s; rm -rf .git/modules/s", "rm -rf c; [ ! -e c ]",
    ],
    "a separate git directory": ["git init -q --separate-git-dir g r", "git -C r commit -q --allow-empty -m x", "rm -rf r g; [ ! -e r ]; [ ! -e g ]"],
    "a test suite with repositories": ["for i in 1 2 3; do git init -q t$i; git -C t$i commit -q --allow-empty -m x; git init -q --bare b$i; done", "rm -rf t* b*; [ ! -e t1 ]"],
}  # fmt: skip


@pytest.mark.parametrize("scripts", EVERYDAY.values(), ids=EVERYDAY.keys())
def test_what_commands_made_is_used_and_removed_by_later_ones(guarded: Guarded, scripts: list[str]) -> None:
    guarded.host("git init -q h; git -C h commit -q --allow-empty -m x; git clone -q --bare h origin 2>/dev/null")
    for script in scripts:
        output, found = guarded.command(f"set -e; {script}; echo; echo fine")
        assert output.endswith("\nfine\n"), (script, output)
        assert found == (), script
    assert not guarded.host("find . -name '*quarantined*'")


CONFIG = "git -C {} config core.fsmonitor evil"
LATER_PLANTS = {
    "a hook": (["git init -q r", "echo x > r/.git/hooks/update"], {"r/.git/hooks/update": "quarantined"}),
    "a sample that becomes a hook": (["git init -q r", "mv r/.git/hooks/update.sample r/.git/hooks/update"], {"r/.git/hooks/update": "quarantined"}),
    "other hooks": (["git init -q r; mkdir h; echo x > h/update", "rm -r r/.git/hooks; ln -s ../../h r/.git/hooks"], {"r/.git/hooks": "quarantined"}),
    "settings": (["git init -q r", CONFIG.format("r")], {"r/.git/config": "rewritten"}),
    "settings of a bare one": (["git init -q --bare b", "git -C b config core.pager evil; git -C b config core.bare false"], {"b/config": "rewritten"}),
    "settings by another name": (["git init -q r", "ln r/.git/config alias", "printf '[core]\\n\\tfsmonitor = evil\\n' >> alias"], {}),
    "settings, after a harmless one": (["git init -q r", "git -C r config user.name x", CONFIG.format("r")], {"r/.git/config": "rewritten"}),
    "a pointer": (["git init -q r; git -C r commit -q --allow-empty -m x; git -C r worktree add -q ../w", "echo 'gitdir: /etc' > w/.git"], {"w/.git": "quarantined"}),
    "the end of a pointer": (
        ["git init -q r; git -C r commit -q --allow-empty -m x; git -C r worktree add -q ../w", "mv r/.git/worktrees/w x; ln -s /etc r/.git/worktrees/w"],
        {"w/.git": "quarantined"},
    ),
    "the way of a pointer": (["mkdir d; git init -q --separate-git-dir d/g r", "mv d e; ln -s e d"], {"r/.git": "quarantined"}),
    "the way of a pointer, and back": (
        ["mkdir d; git init -q --separate-git-dir d/g r", "mv d e; mkdir d", "mv e/g e/k; ln -s k e/g; rmdir d; mv e d"], {"r/.git": "quarantined"}
    ),
    "the work tree of a module": (
        ["git init -q r; cd r; git -c protocol.file.allow=always submodule add -q $PWD/../h s", "mv r/s x; mkdir y; ln -s ../y r/s"],
        {"r/.git/modules/s/config": "rewritten"},
    ),
    "the way back of a module": (
        ["git init -q r; cd r; git -c protocol.file.allow=always submodule add -q $PWD/../h s", "git init -q q; echo 'gitdir: ../../q/.git' > r/s/.git"],
        {"r/.git/modules/s/config": "rewritten"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("scripts", "expected"), LATER_PLANTS.values(), ids=LATER_PLANTS.keys())
def test_what_was_harmless_is_judged_again_when_it_or_its_end_changes(
    guarded: Guarded, scripts: list[str], expected: dict[str, str]
) -> None:
    guarded.host("git init -q h; git -C h commit -q --allow-empty -m x")
    found: dict[str, str] = {}
    for script in scripts:
        found |= guarded.planted(script)
    assert {path: found.get(path) for path in expected} == expected, found
    assert "evil" not in guarded.host("find . -name config -type f -exec cat {} +")
    assert guarded.planted("true") == {}


@pytest.mark.parametrize("script", ["mv d e; ln -s e d", "mv d/g x; ln -s ../x d/g"])
def test_it_is_judged_again_without_watching_too(swept: Guarded, script: str) -> None:
    swept.sentry._watch.close()
    swept.planted("mkdir d; git init -q --separate-git-dir d/g r")
    assert swept.planted(script)["r/.git"] == "quarantined"


# What the host touched


def test_what_the_host_changes_in_a_clone_is_the_hosts_from_then_on(pinned: Guarded) -> None:
    pinned.planted("git init -q r")
    pinned.host("git -C r config core.editor mine; echo x > r/.git/hooks/pre-commit")
    output, found = pinned.command(
        "git -C r config core.editor evil; echo '[core] pager = evil' >> r/.git/config; rm -r r 2>&1 | grep -c busy"
    )
    assert "Read-only" in output and "1\n" in output
    assert found == ()
    assert pinned.host("git config -f r/.git/config core.editor; cat r/.git/hooks/pre-commit") == "mine\nx\n"


def test_what_the_host_only_uses_stays_the_commands_own(guarded: Guarded) -> None:
    guarded.planted("git init -q r")
    guarded.host("cd r; git status; git commit -q --allow-empty -m x; git checkout -q -b side; touch .git/index")
    output, found = guarded.command("git -C r config user.name x && rm -rf r && echo fine")
    assert output == "fine\n" and found == ()


def test_the_hosts_repository_stays_pinned_when_it_is_changed_during_a_command(pinned: Guarded) -> None:
    pinned.host("git init -q h")
    pinned.planted("true")
    pinned.sentry.before_command()
    pinned.host("git -C h config user.name me")
    assert pinned.sentry.after_command() == ()
    output, _ = pinned.command("echo '[core] pager = evil' >> h/.git/config")
    assert "Read-only" in output


def test_a_name_that_the_host_gave_up_is_free(guarded: Guarded) -> None:
    guarded.host("git init -q h; echo x > .envrc")
    guarded.planted("true")
    guarded.host("rm -r h .envrc")
    for script in ("git init -q h", "git -C h config user.name x", "rm -rf h; [ ! -e h ]"):
        output, found = guarded.command(f"{script} && echo fine")
        assert output.endswith("fine\n") and found == ()


@pytest.mark.parametrize("mode", [None])
def test_files_of_commands_are_forgotten_with_their_repository(mode: str | None, make_guarded: Callable[..., Guarded]) -> None:
    guarded = make_guarded(mode)
    known = guarded.sentry._known
    for number in range(5):
        guarded.planted(
            f"git init -q r{number}; git -C r{number} commit -q --allow-empty -m x; git -C r{number} worktree add -q ../w{number}"
        )
        guarded.planted("rm -rf r* w*")
    assert known._files == {} and known._leading == {} and known._serials == {}

# ruff: noqa: E501 - tables of scripts, one a line
"""What ordinary commands do is not disturbed, and nothing is found where nothing was planted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.laterfiles.conftest import Guarded

ORDINARY = {
    "init, commit, branch": "git init -q r; cd r; echo 1 > f; git add f; git commit -q -m 1; git checkout -q -b b; git tag t; git stash list",
    "set a name": "git init -q r; cd r; git config user.name x; git config user.email x@y; git config commit.gpgsign false",
    "clone": "git init -q r; git -C r commit -q --allow-empty -m x; git clone -q r c; git clone -q --bare r b.git; git clone -q --mirror r m.git; git clone -q --no-hardlinks r d; git -C c pull -q",
    "remotes and upstreams": "git init -q r; git -C r commit -q --allow-empty -m x; git clone -q r c; cd c; git remote add o https://example.com/x.git; git checkout -q -b z; git push -q -u origin z",
    "work trees": "git init -q r; cd r; git commit -q --allow-empty -m x; git worktree add -q ../w; git -C ../w commit -q --allow-empty -m y; git worktree list; git worktree remove ../w",
    "a work tree that stays": "git init -q r; cd r; git commit -q --allow-empty -m x; git worktree add -q ../w; git -C ../w status",
    "submodules": "git init -q s; git -C s commit -q --allow-empty -m x; git init -q r; cd r; git -c protocol.file.allow=always submodule add -q $PWD/../s deep/s; git commit -q -m s; git -C deep/s commit -q --allow-empty -m y; git submodule status",
    "clone with submodules": "git init -q s; git -C s commit -q --allow-empty -m x; git init -q r; git -C r -c protocol.file.allow=always submodule add -q $PWD/s s; git -C r commit -q -m s; git -c protocol.file.allow=always clone -q --recurse-submodules r c; git -C c/s log --oneline",
    "maintenance": "git init -q r; cd r; git commit -q --allow-empty -m x; git gc -q; git repack -q -a -d; git fsck; git reflog expire --all",
    "a separate git directory": "git init -q --separate-git-dir g r; git -C r commit -q --allow-empty -m x",
    "sparse and shallow": "git init -q r; git -C r commit -q --allow-empty -m x; git clone -q --depth 1 file://$PWD/r c",
    "a sparse checkout": "git init -q r; cd r; mkdir d e; echo 1 > d/f; echo 1 > e/f; git add -A; git commit -q -m x; git sparse-checkout set d --sparse-index; test ! -e e",
    "a build": "mkdir -p build src/config src/hooks; echo x > src/hooks/useThing.ts; echo x > src/config/index.ts; echo x > Makefile; echo x > conftest.py",
    "packages": "mkdir -p node_modules/.bin node_modules/a; echo x > node_modules/.bin/a; echo x > node_modules/.package-lock.json; mkdir -p venv/bin; echo x > venv/bin/python",
}  # fmt: skip


@pytest.mark.parametrize("script", ORDINARY.values(), ids=ORDINARY.keys())
def test_an_ordinary_command_works_and_nothing_is_found(guarded: Guarded, script: str) -> None:
    output, found = guarded.command(f"set -e; {script}; echo; echo fine")
    assert output.rpartition("\nfine\n")[1], output
    assert found == ()
    output, found = guarded.command(
        "for each in r c c/s r/deep/s w; do [ ! -e $each/.git ] || git -C $each status || exit; done; echo fine"
    )
    assert "fine" in output, output
    assert found == ()


PACKAGE = "mkdir -p {0}/p/.vscode; cd {0}/p; echo 1 > .vscode/settings.json; echo 1 > .envrc"


@pytest.mark.parametrize("place", ["node_modules", "env/lib/python3.12/site-packages"])
def test_a_package_that_brings_editor_settings_is_updated_and_removed(guarded: Guarded, place: str) -> None:
    guarded.host(PACKAGE.format(place))
    for script in (f"mv {place}/p {place}/.p && mv {place}/.p {place}/p", f"rm -r {place.split('/')[0]}"):
        assert guarded.command(f"{script} && echo fine") == ("fine\n", ())


def test_what_a_command_changes_of_a_package_s_editor_settings_does_not_stay(guarded: Guarded) -> None:
    guarded.host(PACKAGE.format("node_modules"))
    guarded.command("cd node_modules/p; echo 2 > .vscode/settings.json; echo 2 > .vscode/tasks.json; echo 2 > .envrc")
    assert guarded.host("find node_modules -type f") == ""


def test_a_partial_clone_is_none_any_more(guarded: Guarded) -> None:
    """What docs/reference/later-files.md warns of; the command that made it has all of it."""
    script = "git init -q r; cd r; git config uploadpack.allowFilter true; for n in 1 2; do echo $n > f; git add f; git commit -q -m $n; done; cd .."
    clone = "git clone -q --filter=blob:none file://$PWD/r c && git -C c show HEAD~1:f"
    guarded.host(script)
    output, found = guarded.command(clone)
    assert output.splitlines()[-1] == "1", output
    assert [each.path for each in found] == ["c/.git/config"]
    assert "remote.origin.promisor" in found[0].detail
    guarded.command("rm -rf c; git clone -q --filter=blob:none file://$PWD/r c")
    assert guarded.command("git -C c checkout -q HEAD~1 2> /dev/null; echo $? $(ls c)")[0] == "0\n"


def test_what_a_clone_checks_out_is_planted_like_anything_else(guarded: Guarded) -> None:
    """The command may have written the repository itself a moment ago."""
    script = "git init -q r; cd r; mkdir .vscode; echo x > .vscode/t; echo x > .envrc; git add -A; git commit -q -m x; cd ..; git clone -q r c"
    assert set(guarded.planted(script)) == {"r/.vscode", "r/.envrc", "c/.vscode", "c/.envrc"}
    assert guarded.host("git -C c status -s").split() == ["D", ".envrc", "D", ".vscode/t"]


def test_ten_thousand_files_are_looked_through_once(swept: Guarded) -> None:
    script = 'python3 -c \'import os\nfor i in range(500):\n os.makedirs(f"m/{i}/lib")\n for j in range(20): open(f"m/{i}/lib/{j}", "w").close()\''
    calls: list[tuple[str, ...]] = []
    entered = swept.sentry._scanner._entered
    swept.sentry._scanner._entered = lambda at: calls.append(at) or entered(at)  # type: ignore[method-assign, assignment]  # to count the calls
    assert swept.planted(script) == {}
    assert len(calls) == len(set(calls)) == 1001
    swept.planted("true")
    swept.planted("rm -r m")
    assert len(calls) == 1001


# Nothing is started here: the mode says whether pins hold. Without them each of the 100 files has to be looked at.
@pytest.mark.parametrize(("mode", "most_calls"), [("slots", 20), (None, 1000)])
def test_an_idle_call_asks_the_kernel_little(make_guarded: Callable[..., Guarded], mode: str | None, most_calls: int) -> None:
    guarded = make_guarded(mode)
    guarded.host("for i in $(seq 100); do mkdir $i; echo x > $i/.envrc; done")
    calls: list[str] = []

    def noted(frame: object, event: str, function: Any) -> None:
        if event == "c_call" and getattr(function, "__module__", None) == "posix":
            calls.append(function.__name__)

    for profile in (None, noted):  # the first takes in what the host made
        sys.setprofile(profile)
        guarded.sentry.before_command()
        guarded.sentry.after_command()
    sys.setprofile(None)
    assert len(calls) <= most_calls, calls


def test_a_sentry_without_inotify_says_so(make_guarded: Callable[..., Guarded]) -> None:
    guarded = make_guarded(None)
    assert guarded.sentry.watching == ""
    guarded.sentry.close()
    assert guarded.sentry.watching == "closed"
    assert guarded.planted("mkdir d; echo x > d/.envrc") == {"d/.envrc": "quarantined"}
    assert guarded.planted("true") == {}

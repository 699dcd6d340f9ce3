# ruff: noqa: E501 - tables of scripts, one a line
"""What a command plants is found, wherever and however, and made harmless; with pins and without."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from fable_exec.laterfiles import Kind, kind_of_path
from fable_exec.laterfiles.names import is_git_directory, kind_of_name
from tests import hosts
from tests.laterfiles.conftest import Guarded

EVIL_CONFIG = "printf '[core]\\n\\tfsmonitor = evil\\n'"
BARE = "mkdir -p {0}/objects {0}/refs {0}/hooks; echo 'ref: refs/heads/m' > {0}/HEAD"

PLANTS = {
    # the rows of field reports: what peers let pass
    "a hook in a repository made by the command": ("git init -q sub; echo x > sub/.git/hooks/pre-commit", ["sub/.git/hooks/pre-commit"]),
    "a hook without a repository": ("mkdir -p .git/hooks; echo x > .git/hooks/pre-commit", [".git/hooks/pre-commit"]),
    "config.worktree": (f"git init -q r; {EVIL_CONFIG} > r/.git/config.worktree", ["r/.git/config.worktree"]),
    "a hook of a module": ("mkdir -p .git/modules/m; git init -q --bare .git/modules/m; echo x > .git/modules/m/hooks/update", [".git/modules/m/hooks/update"]),
    "settings in a new repository": ("git init -q r; git -C r config core.fsmonitor evil; git -C r config diff.external evil", ["r/.git/config"]),
    "a filter": ("git init -q r; git -C r config filter.x.clean evil", ["r/.git/config"]),
    "a redirected hooks path": ("git init -q r; git -C r config core.hooksPath ../h; mkdir h; echo x > h/pre-commit", ["r/.git/config"]),
    "an include": ("git init -q r; git -C r config include.path ../x", ["r/.git/config"]),
    "six levels down": ("mkdir -p 1/2/3/4/5/6; git init -q 1/2/3/4/5/6; echo x > 1/2/3/4/5/6/.git/hooks/pre-push", ["1/2/3/4/5/6/.git/hooks/pre-push"]),
    "start-up files": ("echo x > .envrc; echo x > .zshenv; echo x > .bash_login", [".bash_login", ".envrc", ".zshenv"]),
    "editor tasks": ("mkdir .vscode; echo x > .vscode/tasks.json", [".vscode"]),
    "agent configuration": ("mkdir -p a/.claude; echo x > a/.claude/settings.json; echo x > a/.mcp.json", ["a/.claude", "a/.mcp.json"]),
    "other version control": ("mkdir .hg; echo x > .hg/hgrc; mkdir -p .jj/repo; echo x > .jj/repo/config.toml", [".hg/hgrc", ".jj/repo/config.toml"]),
    # how
    "by rename": ("echo x > y; mv y .envrc", [".envrc"]),
    "by hard link": ("echo x > y; ln y .envrc", [".envrc"]),
    "by a symbolic link": ("echo x > y; ln -s y .envrc", [".envrc"]),
    "a link to nowhere": ("ln -s /nowhere .vscode", [".vscode"]),
    "by the rename of a directory": ("mkdir -p x/hooks; echo x > x/hooks/pre-commit; mv x .git", [".git/hooks/pre-commit"]),
    "by the rename of an ancestor": ("mkdir -p x/y; echo x > x/y/.envrc; mv x z", ["z/y/.envrc"]),
    "by an exchange": ("mkdir x; echo x > x/.envrc; mkdir z; python3 -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b\"x\", -100, b\"z\", 2)'", ["z/.envrc"]),
    "made, removed and made again": ("echo x > .envrc; rm .envrc; echo y > .envrc", [".envrc"]),
    "with times set back": ("echo x > .envrc; touch -d 1999-01-01 .envrc; mkdir d; echo x > d/.envrc; touch -d 1999-01-01 d/.envrc d .", [".envrc", "d/.envrc"]),
    "by a background child at the last moment": ("(trap '' HUP TERM; sleep 0.05; echo x > .envrc) & until [ -e .envrc ]; do sleep 0.01; done", [".envrc"]),
    "from an unnamed file": ("python3 -c 'import os; f=os.open(\".\", os.O_TMPFILE|os.O_RDWR); os.link(f\"/proc/self/fd/{f}\", \".envrc\", src_dir_fd=0, follow_symlinks=True)'", [".envrc"]),
    # names
    "another case": ("echo x > .ENVRC; mkdir .GIT; mkdir .Git .Git/Hooks; echo x > .Git/Hooks/pre-commit", [".ENVRC", ".Git/Hooks/pre-commit"]),
    "trailing space and dot": ("echo x > '.envrc '; echo x > .envrc.", [".envrc ", ".envrc."]),
    "a stream": ("echo x > '.envrc::$DATA'; mkdir '.git::$INDEX_ALLOCATION'; mkdir '.git::$INDEX_ALLOCATION/hooks'; echo x > '.git::$INDEX_ALLOCATION/hooks/pre-commit'", [".envrc::$DATA", ".git::$INDEX_ALLOCATION/hooks/pre-commit"]),
    "an ignorable character": ("echo x > $'.env\\u200crc'", [".env\u200crc"]),
    "a folding character": ("mkdir $'.\\u212airo'", [".\u212airo"]),
    # kinds of files
    "FIFO": ("mkfifo .envrc; git init -q r; rm r/.git/config; mkfifo r/.git/config; mkdir w; mkfifo w/.git", [".envrc", "r/.git/config", "w/.git"]),
    "a socket": ("python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\".profile\")'", [".profile"]),
    "a directory instead of a file": ("mkdir -p .envrc/x; git init -q r; rm r/.git/config; mkdir r/.git/config", [".envrc", "r/.git/config"]),
    "a link instead of the hooks": ("git init -q r; rm -r r/.git/hooks; mkdir h; echo x > h/pre-commit; ln -s ../../h r/.git/hooks", ["r/.git/hooks"]),
    "a link instead of the repository": ("git init -q r; mkdir w; ln -s ../r/.git w/.git", ["w/.git"]),
    "a link instead of the configuration": (f"git init -q r; {EVIL_CONFIG} > c; ln -sf ../../c r/.git/config", ["r/.git/config"]),
    # what a directory turns into
    "a bare repository": (f"{BARE.format('b')}; {EVIL_CONFIG} > b/config; echo x > b/hooks/post-update", ["b/config", "b/hooks/post-update"]),
    "start-up files in a bare repository": (f"{BARE.format('b')}; echo x > b/.envrc; mkdir -p b/objects/p b/x; echo x > b/objects/p/.envrc; echo x > b/x/.mcp.json", ["b/.envrc", "b/objects/p/.envrc", "b/x/.mcp.json"]),
    "a repository in a git directory": ("git init -q r; git init -q r/.git/x; echo x > r/.git/x/.git/hooks/update", ["r/.git/x/.git/hooks/update"]),
    "commondir": ("git init -q r; mkdir -p e/objects e/refs e/hooks; echo x > e/hooks/pre-commit; echo ../../e > r/.git/commondir", ["r/.git/commondir"]),
    "commondir of a work tree": ("mkdir -p e/worktrees/w e/objects e/refs e/hooks; echo x > e/hooks/pre-commit; echo ../.. > e/worktrees/w/commondir; echo ref: refs/heads/m > e/worktrees/w/HEAD; mkdir w; echo 'gitdir: ../e/worktrees/w' > w/.git", ["e/hooks/pre-commit"]),
    # pointers
    "outside": ("mkdir w; echo 'gitdir: /etc' > w/.git", ["w/.git"]),
    "up and out": ("mkdir w; echo 'gitdir: ../../../x' > w/.git", ["w/.git"]),
    "through a link": ("git init -q r; ln -s / l; mkdir w; echo 'gitdir: ../l/../r/.git' > w/.git; mkdir v; echo 'gitdir: ../l/etc' > v/.git", ["v/.git", "w/.git"]),
    "at nothing yet": ("mkdir w; echo 'gitdir: ../later' > w/.git", ["w/.git"]),
    "into the object store": ("git init -q r; git init -q --bare r/.git/objects/ab/e; mkdir w; echo 'gitdir: ../r/.git/objects/ab/e' > w/.git", ["w/.git"]),
    "without its word": ("git init -q r; mkdir w; echo '../r/.git' > w/.git", ["w/.git"]),
    "with a NUL": ("git init -q r; mkdir w; printf 'gitdir: ../r/.git\\0/x' > w/.git", ["w/.git"]),
    "huge": ("mkdir w; (echo 'gitdir: x'; head -c 3000000 /dev/zero) > w/.git", ["w/.git"]),
    "core.worktree": ("git init -q r; git -C r config core.worktree /etc; git init -q s; git -C s config core.worktree ../../x", ["r/.git/config", "s/.git/config"]),
    # configurations
    "a huge configuration": ("git init -q r; (head -c 2000000 /dev/zero | tr '\\0' '\\n'; echo '[core] fsmonitor = evil') >> r/.git/config", ["r/.git/config"]),
    "behind a comment that seems to continue": ("git init -q r; printf '# \\\\\\n[core] pager = evil\\n' >> r/.git/config", ["r/.git/config"]),
    "UTF-16": ("git init -q r; printf '\\xff\\xfe[\\0c\\0' > r/.git/config", ["r/.git/config"]),
    # rights
    "below a closed directory": ("mkdir -p d/e/.git/hooks; echo x > d/e/.git/hooks/update; echo x > d/.envrc; chmod 000 d/e/.git/hooks d/e/.git d/e d", ["d/.envrc", "d/e/.git/hooks/update"]),
    "behind hundreds of closed directories": ("mkdir d{1..200}; echo x > d200/.envrc; chmod 111 d*", ["d200/.envrc"]),
    "in an unchangeable directory": ("git init -q r; echo x > r/.git/hooks/update; chmod 555 r/.git/hooks r/.git r; mkdir d; echo x > d/.envrc; chmod 111 d", ["d/.envrc", "r/.git/hooks/update"]),
    "a directory that cannot be moved": ("mkdir .vscode; echo x > .vscode/tasks.json; chmod 000 .vscode", [".vscode"]),
}  # fmt: skip


@pytest.mark.parametrize(("script", "paths"), PLANTS.values(), ids=PLANTS.keys())
def test_a_plant_is_found_and_made_harmless(guarded: Guarded, script: str, paths: list[str]) -> None:
    found = guarded.planted(script)
    assert [path for path in sorted(found) if path in paths] == sorted(paths), found
    assert "left" not in found.values()
    for path, done in found.items():
        assert guarded.exists(path) is (done == "rewritten")
        if done == "rewritten":
            assert "evil" not in (guarded.path / path).read_text()
    assert guarded.planted("true") == {}, "judged once"


@pytest.mark.parametrize(("script", "paths"), PLANTS.values(), ids=PLANTS.keys())
def test_without_watching_a_plant_is_found_all_the_same(swept: Guarded, script: str, paths: list[str]) -> None:
    swept.sentry._watch.close()
    found = swept.planted(script)
    assert [path for path in sorted(found) if path in paths] == sorted(paths), found


def test_a_plant_below_a_very_deep_directory_is_found(guarded: Guarded) -> None:
    script = 'python3 -c \'import os\nfor _ in range(300): os.mkdir("q"); os.chdir("q")\nopen(".envrc", "w").close()\''
    assert list(guarded.planted(script)) == ["q/" * 300 + ".envrc"]


DEEPEN = """python3 -c '
import os
left = {bytes}
while left > 0:
    name = "r" * min({name}, left - 1)
    os.mkdir(name)
    os.chdir(name)
    left -= len(name) + 1
{plant}
'"""
PLANT_DEEP = {
    "a start-up file": ('open(".envrc", "w").close()', ".envrc"),
    "a hook": ('os.makedirs(".git/hooks"); open(".git/hooks/update", "w").close()', ".git/hooks/update"),
    "settings": ('os.makedirs(".git"); open(".git/config", "w").write("[core]\\n\\tfsmonitor = evil\\n")', ".git/config"),
    "a pointer": ('open(".git", "w").write("gitdir: /etc")', ".git"),
    "a closed directory": ('os.mkdir("d"); open("d/.envrc", "w").close(); os.chmod("d", 0)', "d/.envrc"),
}


@pytest.mark.parametrize(
    "length", [pytest.param(3890, marks=pytest.mark.deep), 3950, pytest.param(4000, marks=pytest.mark.deep), 4084]
)
@pytest.mark.parametrize(("plant", "path"), PLANT_DEEP.values(), ids=PLANT_DEEP.keys())
def test_a_plant_that_is_hardly_to_be_named_is_made_harmless(guarded: Guarded, plant: str, path: str, length: int) -> None:
    _, found = guarded.command(DEEPEN.format(bytes=length, name=200, plant=plant))
    assert [each.done for each in found] == ["rewritten" if path.endswith("config") else "quarantined"], found
    assert "evil" not in guarded.host("find . -type f -name config -execdir cat {} +")
    leaf = path.rpartition("/")[2]
    assert leaf == "config" or not guarded.host(f"find . -name {leaf} ! -type d")
    guarded.host("chmod -R u+rwx .; rm -rf r*")


@pytest.mark.parametrize("name", [200, 2])
def test_what_is_too_deep_to_be_named_is_taken_away_as_a_whole(guarded: Guarded, name: int) -> None:
    _, found = guarded.command(DEEPEN.format(bytes=9_000, name=name, plant='open(".envrc", "w").close()'))
    assert [(each.kind, each.done) for each in found] == [(Kind.NOT_JUDGED, "quarantined")]
    assert not guarded.host("find . -name .envrc")
    assert guarded.planted("true") == {}
    guarded.host("rm -rf r* ../quarantine")


def test_what_the_host_has_too_deep_stays_where_it_is(guarded: Guarded) -> None:
    guarded.host(DEEPEN.format(bytes=9_000, name=200, plant='open(".envrc", "w").close()'))
    assert [each.kind for each in guarded.sentry.warnings] == [Kind.NOT_JUDGED]
    guarded.planted("true")
    guarded.host(DEEPEN.format(bytes=9_000, name=150, plant=""))
    guarded.sentry._watch.close()
    assert set(guarded.planted("true").values()) == {"left"}
    assert guarded.host("find . -name .envrc")
    guarded.host("rm -rf r*")


def test_a_directory_of_many_entries_is_no_hiding_place(swept: Guarded) -> None:
    assert swept.planted('python3 -c \'for i in range(20000): open(f"f{i}", "w").close()\'; echo x > .envrc') == {
        ".envrc": "quarantined"
    }


@pytest.mark.deep
def test_an_overflow_of_events_loses_nothing(guarded: Guarded) -> None:
    script = 'mkdir d; echo x > d/.envrc; python3 -c \'for i in range(60000): open(f"f{i % 100}", "w").close()\'; echo x > .zshrc'
    assert set(guarded.planted(script)) == {".zshrc", "d/.envrc"}


# Over several commands

STEPS = {
    "a repository completed piece by piece": (
        ["mkdir -p b/hooks b/objects; echo x > b/hooks/update", f"{EVIL_CONFIG} > b/config; echo ref: refs/heads/m > b/HEAD", "mkdir b/refs"],
        {"b/hooks/update", "b/config"},
    ),
    "a directory that becomes the hooks": (
        ["git init -q r; rm -r r/.git/hooks", "mkdir h; echo x > h/update", "mv h r/.git/hooks"],
        {"r/.git/hooks/update"},
    ),
    "hooks of a bare repository made later": (
        ["git init -q --bare b; rm -r b/hooks", "mkdir b/hooks; echo x > b/hooks/update"],
        {"b/hooks/update"},
    ),
    "a closed directory that is opened later": (["mkdir d; echo x > d/y; chmod 000 d", "chmod 755 d; mv d/y d/.envrc"], {"d/.envrc"}),
    "a sample that becomes a hook": (["git init -q --bare b", "mv b/hooks/update.sample b/hooks/update || mv b/hooks x; mv x/update.sample x/update; mv x b/hooks"], {"b/hooks/update"}),
    "a link that is moved into place": (["ln -s y z", "mv z .envrc"], {".envrc"}),
}  # fmt: skip


@pytest.mark.parametrize(("scripts", "paths"), STEPS.values(), ids=STEPS.keys())
def test_what_is_planted_in_several_commands_is_found(swept: Guarded, scripts: list[str], paths: set[str]) -> None:
    found = [path for script in scripts for path in swept.planted(script)]
    assert paths <= set(found)


def test_another_name_of_a_harmless_configuration_is_cut_off(guarded: Guarded) -> None:
    assert guarded.planted("git init -q r; ln r/.git/config alias") == {}
    assert guarded.planted(f"{EVIL_CONFIG} >> alias") == {}
    assert "evil" not in (guarded.path / "r/.git/config").read_text()


# What the host has counts too


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


# How it is dealt with


def test_only_reporting_changes_nothing(make_guarded: Callable[..., Guarded]) -> None:
    guarded = make_guarded(None, action="report")
    script = "echo x > .envrc; git init -q r; git -C r config core.pager x; mkdir d; echo x > d/.zshrc; chmod 000 d"
    found = guarded.planted(script)
    assert {".envrc", "r/.git/config"} <= set(found)
    assert set(found.values()) == {"left"}
    assert guarded.exists(".envrc") and "pager" in (guarded.path / "r/.git/config").read_text()
    assert not guarded.quarantine.exists()
    guarded.host("chmod 755 d")


def test_findings_are_bounded_in_number_and_text(swept: Guarded) -> None:
    _, found = swept.command(
        "for i in $(seq 150); do mkdir d$i; echo x > d$i/.envrc; done; mkdir w; printf 'gitdir: \\033[31m%5000d' 0 > w/.git"
    )
    assert len(found) == 101
    assert "51 more" in found[-1].detail
    assert not swept.host("find . -name .envrc -o -name .git")
    _, found = swept.command("mkdir -p v; printf 'gitdir: \\033[31m%5000d' 0 > v/.git")
    assert len(found[0].detail) <= 400 and "\x1b" not in found[0].detail


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # a worker of pytest-xdist has a thread
def test_a_forked_child_does_not_take_its_parents_events(swept: Guarded) -> None:
    swept.sentry.before_command()
    swept.host("echo x > .envrc")
    child = os.fork()
    if child == 0:
        try:
            swept.sentry.before_command()
            swept.sentry.after_command()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert [each.path for each in swept.sentry.after_command()] == [".envrc"]


# Names alone


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (".git/hooks/pre-commit", Kind.GIT_HOOKS), ("a/.git/config", Kind.GIT_CONFIG), (".GIT/config", Kind.GIT_CONFIG),
        (".git", Kind.GIT_POINTER), (".git/commondir", Kind.GIT_POINTER), (".git/HEAD", None), (".git/modules/m/config", Kind.GIT_CONFIG),
        ("a/.vscode/x", Kind.EDITOR_TASKS), (".envrc", Kind.SHELL_STARTUP), ("a/.claude/commands/x.md", Kind.AGENT_CONFIG),
        ("Makefile", None), ("package.json", None), ("conftest.py", None), (".npmrc", None), ("config", None), ("hooks/x", None),
        (".github/workflows/x.yml", None), (".pre-commit-config.yaml", None), (".hg/hgrc", Kind.VCS_CONFIG), ("hgrc", None),
        (".gitignore", None), (".gitattributes", None), (".env", None), ("src/environment.py", None),
    ],
)  # fmt: skip
def test_a_path_has_a_kind_by_its_names(path: str, kind: Kind | None) -> None:
    assert kind_of_path(tuple(path.split("/"))) is kind


def test_ordinary_directories_are_no_git_directories() -> None:
    assert not is_git_directory("src", ["objects", "refs", "hooks", "config"])
    assert is_git_directory("x", ["HEAD", "objects", "refs"])
    assert is_git_directory("x", ["HEAD", "commondir"])
    assert kind_of_name("config", ("src",), is_directory=False) is None


RACER = """
import os, sys, time
os.chdir(sys.argv[1])
end = time.monotonic() + float(sys.argv[2])
EVIL = "[core]\\n\\tfsmonitor = evil\\n"
def put(path):
    with open(path, "w") as file:
        file.write(EVIL)
os.makedirs("r/.git/objects")
os.mkdir("r/.git/refs")
put("r/.git/HEAD")
acts = [
    lambda: put("r/.git/config"), lambda: os.rename("r", "s"), lambda: os.symlink("/etc", "r"), lambda: os.unlink("r"),
    lambda: os.rename("s", "r"), lambda: os.mkdir("r/.git/hooks"), lambda: put("r/.git/hooks/update"), lambda: put(".envrc"),
    lambda: os.rename("r/.git/config", "r/.git/c"), lambda: os.symlink("/etc/passwd", "r/.git/config"),
    lambda: os.unlink("r/.git/config"), lambda: os.rename("r/.git/c", "r/.git/config"), lambda: os.chmod("r", 0),
    lambda: os.chmod("r", 0o755),
]
while time.monotonic() < end:
    for act in acts:
        try:
            act()
        except OSError:
            pass
"""


def race(guarded: Guarded, seconds: float) -> None:
    """One command changes everything all the time while others end, and are judged, beside it."""
    sentry = guarded.sentry
    sentry.before_command()
    racer = subprocess.Popen([sys.executable, "-c", RACER, str(guarded.path), str(seconds)])
    while racer.poll() is None:
        sentry.before_command()
        sentry.after_command()
    sentry.after_command()
    for leftover in ("r", "s"):
        path = guarded.path / leftover
        if path.is_symlink() or not path.exists():
            continue
        path.chmod(0o755)
        assert not (path / ".git/hooks/update").exists()
        config = path / ".git/config"
        assert not config.is_symlink() and (not config.exists() or "evil" not in config.read_text())
    assert not guarded.exists(".envrc")
    assert Path("/etc/passwd").exists()


def test_a_command_that_changes_everything_while_others_are_judged_gains_nothing(swept: Guarded) -> None:
    race(swept, 0.5)


@pytest.mark.deep
def test_nor_in_the_long_run(swept: Guarded) -> None:
    race(swept, 20)


@pytest.mark.requires_ability("userns")
def test_when_there_are_no_more_watches_every_look_is_a_full_one(swept: Guarded) -> None:
    program = """
    import os, subprocess, sys
    from fable_exec.laterfiles import Sentry
    from fable_exec.pathguard import Workspace
    sentry = Sentry(Workspace.open(sys.argv[1]), sys.argv[2], pinned=False)
    sentry.before_command()
    subprocess.run(["bash", "-c", "mkdir d{1..99}; echo x > d99/.envrc"], cwd=sys.argv[1])
    print([each.path for each in sentry.after_command()], sentry.watching)
    sentry.before_command()
    subprocess.run(["bash", "-c", "echo x > d98/.envrc"], cwd=sys.argv[1])
    print([each.path for each in sentry.after_command()])
    """
    few = 'echo 50 > /proc/sys/user/max_inotify_watches; exec "$@"'
    answer = subprocess.run(
        ["unshare", "--user", "--map-root-user", "bash", "-ec", few, "bash",
         sys.executable, "-c", textwrap.dedent(program), str(swept.path), str(swept.quarantine)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(hosts.PROJECT)},
    )  # fmt: skip
    first, second = answer.stdout.splitlines()
    assert first.startswith("['d99/.envrc'] no more inotify watches"), answer.stderr
    assert second == "['d98/.envrc']"


def test_what_goes_away_is_forgotten_and_its_name_starts_anew(swept: Guarded) -> None:
    swept.planted("mkdir -p b/objects b/refs b/hooks; echo ref: x > b/HEAD; mkdir d{1..200}")
    scanner = swept.sentry._scanner
    assert ("b",) in scanner.git_directories and ("b", "hooks") in scanner.inside
    swept.planted("rm -r b d*")
    assert swept.planted("mkdir -p b/hooks; echo x > b/hooks/useThing; echo x > b/config") == {}
    assert scanner.git_directories == set() and scanner.inside == {}
    assert scanner.entered == {(), ("b",), ("b", "hooks")}


@pytest.mark.requires_ability("ordinary_user")
def test_doors_beyond_the_bound_stay_closed_and_are_told(swept: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fable_exec.laterfiles.sentry._MAX_OPENED", 3)
    found = swept.planted("for n in 1 2 3 4 5; do mkdir d$n; echo x > d$n/.envrc; done; chmod 111 d*")
    told = [path for path, done in found.items() if done == "left"]
    assert len(found) - len(told) == 3 and len(told) == 2
    assert all(not swept.exists(f"{path}/.envrc") or path in told for path in ("d1", "d2", "d3", "d4", "d5"))

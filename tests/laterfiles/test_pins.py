# ruff: noqa: E501 - tables of scripts, one a line
"""What exists when a command starts cannot be changed by it, at any depth and in any way, and no mount or stub is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.laterfiles.conftest import GIT_ENVIRONMENT, Guarded

REPOSITORY = """
git init -q; git init -q a/b/c/d/e/deep; echo x > .envrc; mkdir .vscode .claude; echo x > .vscode/tasks.json; ln -s .envrc .profile
echo one > f; git add f; git commit -q -m one
git clone -q . other; git -c protocol.file.allow=always submodule add -q ./other sub; git worktree add -q tree
mkdir -p a/plain
"""
TRACKED = """
git init -q -b main; mkdir .vscode; echo 1 > .vscode/t; echo 1 > f; git add -A; git commit -q -m 1; git branch other
echo 2 > .vscode/t; echo 2 > f; echo 2 > g; git add -A; git commit -q -m 2; git switch -q other
git clone -q --bare . bare; echo bare > .git/info/exclude
"""
DEEP = "a/b/c/d/e/deep/.git"

ATTEMPTS = {
    "write a hook": "echo evil > .git/hooks/pre-commit",
    "write a hook six levels down": f"echo evil > {DEEP}/hooks/pre-commit",
    "write a hook of a module": "echo evil > .git/modules/sub/hooks/pre-commit",
    "edit a sample into a hook": "mv .git/hooks/pre-commit.sample .git/hooks/pre-commit",
    "move a file into the hooks": "echo evil > x; mv x .git/hooks/pre-commit",
    "link a file into the hooks": "echo evil > x; ln x .git/hooks/pre-commit",
    "replace the hooks": "rm -rf .git/hooks; mkdir .git/hooks; echo evil > .git/hooks/pre-commit",
    "append to the configuration": "echo '[core] fsmonitor = evil' >> .git/config",
    "set by git": "git config core.fsmonitor evil",
    "set by git in a module": "git -C sub config core.fsmonitor evil",
    "lock, then rename": "cp .git/config .git/config.lock; echo '[core] pager = evil' >> .git/config.lock; mv -f .git/config.lock .git/config",
    "remove and write anew": "rm -f .git/config; echo '[core] pager = evil' > .git/config",
    "through a hard link": "ln .git/config alias; echo '[core] pager = evil' >> alias",
    "through a hard link of a descriptor": "exec 3< .git/config; ln -L /proc/self/fd/3 alias; echo '[core] pager = evil' >> alias",
    "through an open descriptor": "exec 3< .git/config; echo '[core] pager = evil' >> /proc/self/fd/3",
    "through a symbolic link": "ln -s .git/config alias; echo '[core] pager = evil' >> alias",
    "move the repository away": "mv .git g2; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit",
    "move an ancestor away": "mv a a2; mkdir -p a/b/c/d/e/deep/.git/hooks",
    "move the innermost ancestor away": "mv a/b/c/d/e/deep a/plain/deep",
    "exchange an ancestor": 'mkdir other-a; python3 -c \'import ctypes; ctypes.CDLL(None).renameat2(-100, b"a", -100, b"other-a", 2)\'',
    "put a link in an ancestor's place": "mkdir h; rmdir a/b; mv a/b x; ln -s ../h a/b",
    "mount over it": "mount -t tmpfs none .git/hooks; umount .git/hooks; umount .git/config",
    "change its mode": "chmod 777 .git/config; chmod -R 777 .git/hooks",
    "change its times": "touch -d 2001-01-01 .git/config .envrc",
    "write a start-up file": "echo evil >> .envrc; rm -f .envrc; mv f .envrc",
    "replace a link": "ln -sfn f .profile; rm .profile; echo evil > .profile",
    "write editor tasks": "echo evil > .vscode/tasks.json; echo evil > .vscode/settings.json",
    "write the configuration of an agent": "echo evil > .claude/settings.json; mv .claude c2",
    "rewrite a pointer": "echo 'gitdir: ../evil' > tree/.git; echo 'gitdir: ../evil' > sub/.git",
    "a second repository in its place": "rm -rf .git; git init -q",
}


def later_files(path: Path) -> list[Path]:
    """What runs later in REPOSITORY."""
    names = {"config", ".envrc", ".profile"}
    return [
        each
        for each in sorted(path.rglob("*"))
        if each.name in names or {"hooks", ".vscode", ".claude"} & set(each.parts) or (each.name == ".git" and each.is_file())
    ]


def state(files: list[Path]) -> list[object]:
    """Everything about these files that a command could change, and that nothing is missing."""
    found: list[object] = []
    for each in files:
        status = each.lstat()
        content = os.readlink(each) if each.is_symlink() else each.read_bytes() if each.is_file() else os.listdir(each)
        found.append((each, status.st_mode, status.st_ino, status.st_mtime_ns, content))
    return found


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """REPOSITORY, made once: that takes git longer than an attempt takes."""
    place = tmp_path_factory.mktemp("repository").resolve()
    subprocess.run(["bash", "-ec", REPOSITORY], cwd=place, env={**os.environ, **GIT_ENVIRONMENT}, check=True, capture_output=True)
    return place


def copy(repository: Path, guarded: Guarded) -> None:
    """As if it had been made here: git writes down where a work tree and a clone are."""
    guarded.host(f'cp -a {repository}/. .; grep -rlF {repository} . | xargs sed -i "s,{repository},$PWD,g"')


def test_the_copy_of_a_repository_works_where_it_is(swept: Guarded, repository: Path) -> None:
    copy(repository, swept)
    swept.host("for each in . tree sub other a/b/c/d/e/deep; do git -C $each commit -q --allow-empty -m x; done")
    assert swept.host(f"git -C tree rev-parse --show-toplevel; grep -rlF {repository} . || true") == f"{swept.path}/tree\n"


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS.keys())
def test_an_attempt_changes_nothing_that_runs_later(pinned: Guarded, repository: Path, attempt: str) -> None:
    copy(repository, pinned)
    files = later_files(pinned.path)
    before = state(files)
    pinned.command(attempt)
    assert state(files) == before


def test_the_control_without_a_launcher_does_change_it(swept: Guarded) -> None:
    swept.host(REPOSITORY)
    files = later_files(swept.path)
    before = state(files)
    swept.command("chmod 777 .git/config")
    assert state(files) != before


def test_a_pin_that_the_host_renames_over_is_put_back(pinned: Guarded) -> None:
    pinned.host("git init -q")
    pinned.command("true")
    for value in ("one", "two"):
        pinned.host(f"git config host.value {value}")
        output, found = pinned.command("echo '[core] pager = evil' >> .git/config; git config host.value")
        assert ("Read-only" in output and output.endswith(f"{value}\n")) or f"{value}\n" in output
        assert found == ()
    assert "evil" not in pinned.host("cat .git/config")


def test_a_pin_holds_after_the_host_moved_the_file_away_and_back(pinned: Guarded) -> None:
    pinned.host("mkdir d; git init -q d/r; echo x > .envrc")
    pinned.command("true")
    pinned.host("ln .envrc keep; rm .envrc; mv d d2")
    pinned.command("true")
    pinned.host("mv keep .envrc; mv d2 d")
    output, _ = pinned.command("echo evil >> .envrc; echo '[core] pager = evil' >> d/r/.git/config")
    assert output.count("Read-only") == 2


def test_a_write_of_the_librarys_own_keeps_the_pin(pinned: Guarded) -> None:
    from fable_exec.pathguard import WorkspacePath

    pinned.host("echo x > .envrc")
    pinned.command("true")
    pinned.workspace.write_replace(WorkspacePath.parse(".envrc"), b"host\n")
    output, _ = pinned.command("echo evil >> .envrc; cat .envrc")
    assert "Read-only" in output and "host\n" in output


def test_an_anchor_becomes_a_pin(pinned: Guarded) -> None:
    """A directory that was only on the way to a pin, and that a link makes count later."""
    pinned.host("mkdir -p tools/r; git init -q tools/r; touch tools/t")
    pinned.command("true")
    pinned.host("ln -s tools .vscode")
    output, _ = pinned.command("echo evil > tools/tasks.json")
    assert "Read-only" in output


def test_names_with_special_characters_are_pinned(pinned: Guarded) -> None:
    names = ["with space", "tab\there", "new\nline", "back\\040slash", "hash#", "ünï", 'quo"te', "-dash"]
    for name in names:
        (pinned.path / name).mkdir()
        (pinned.path / name / ".envrc").write_text("host")
    (pinned.path / os.fsdecode(b"\xff")).mkdir()
    (pinned.path / os.fsdecode(b"\xff") / ".envrc").write_text("host")
    for _ in range(2):
        output, found = pinned.command('for each in */; do echo evil > "./$each/.envrc"; done')
        assert output.count("Read-only") == len(names) + 1
        assert found == ()


def test_a_component_that_is_swapped_for_a_link_is_not_followed(pinned: Guarded) -> None:
    pinned.host("mkdir a b; echo x > a/.envrc; echo y > b/.envrc")
    pinned.command("true")
    pinned.host("rm -r a; ln -s b a")
    output, _ = pinned.command("echo evil > b/.envrc; echo evil > a/.envrc; echo ran")
    assert "ran" in output
    assert pinned.host("cat b/.envrc") == "y\n"


def test_other_names_of_a_pinned_file_are_pinned_too(pinned: Guarded) -> None:
    """Hard links that the host has: writing to one is writing to the other."""
    pinned.host(
        "echo x > .envrc; mkdir -p a/b; ln .envrc a/b/alias; git init -q; echo x > .git/hooks/update; ln .git/hooks/update u"
    )
    pinned.host("ln .git/config a/config; ln a/config a/b/config")
    output, found = pinned.command("for each in a/b/alias u a/config a/b/config; do echo evil > $each; mv $each gone; done")
    assert output.count("Read-only") == 4 and output.count("busy") == 4
    assert found == () and pinned.sentry.warnings == ()
    pinned.host("git init -q later; ln later/.git/config later/alias")
    output, found = pinned.command("echo evil > later/alias")
    assert "Read-only" in output and found == ()


@pytest.mark.parametrize("look", ["watched", "unwatched"])
def test_a_change_by_another_name_is_found_where_nothing_is_pinned(swept: Guarded, look: str) -> None:
    swept.host("git init -q; ln .git/config alias")
    if look == "unwatched":
        swept.sentry._watch.close()
    found = swept.planted("printf '[core]\\n\\tfsmonitor = evil\\n' >> alias")
    assert found[".git/config"] == "rewritten"


DEEP_FILE = """python3 -c '
import os
for _ in range(19):
    os.mkdir("r" * 210)
    os.chdir("r" * 210)
os.mkdir("s" * 80)
os.chdir("s" * 80)
open(".envrc", "w").write("host")
'"""


def test_where_the_kernel_refuses_a_pin_the_others_hold_and_the_sweep_goes_on(pinned: Guarded) -> None:
    """A path that is too long to be opened in one call cannot be pinned."""
    pinned.host(f"echo host > .envrc; {DEEP_FILE}")
    find = 'find . -name .envrc -path "*rrr*" -execdir sh -c "echo evil > .envrc" \\;'
    output, found = pinned.command(f"echo evil > .envrc; {find}")
    assert output.count("Read-only") == 1 and pinned.host("cat .envrc") == "host\n"
    assert [each.done for each in found] == ["quarantined"]
    (applied,) = (each for each in pinned.last.applied if each.protection == "later_files")
    assert applied.state == "degraded"
    assert applied.reason.startswith("the kernel refused to pin rrr") and applied.reason.endswith("File name too long")
    pinned.host("rm -rf r*")


def test_pins_take_one_mount_each_and_one_for_each_directory_above(pinned: Guarded) -> None:
    """However deep they lie: a mount that shared its changes with what it lies over would double them at each level."""
    deep = "/".join("d" * 14)
    pinned.host("true")
    pinned.command("true")
    before = int(pinned.command("wc -l < /proc/self/mountinfo")[0])
    pinned.host(
        f"mkdir -p {deep}; echo x > {deep}/.envrc; for i in 1 2 3 4; do mkdir -p e/f/g/$i; echo x > e/f/g/$i/.envrc; done"
    )
    after = int(pinned.command("wc -l < /proc/self/mountinfo")[0])
    assert after - before == 14 + 1 + 3 + 2 * 4


def test_nothing_is_mounted_on_the_host_and_no_stub_is_left(pinned: Guarded) -> None:
    pinned.host(REPOSITORY)
    tree = pinned.host("find . | sort")
    mounts = Path("/proc/self/mountinfo").read_text()
    pinned.command("true")
    assert str(pinned.path) not in Path("/proc/self/mountinfo").read_text()
    assert pinned.runner is not None
    zygote = pinned.runner._launchers._own().zygote
    assert zygote is not None
    os.kill(zygote.pid, signal.SIGKILL)
    pinned.close()
    assert Path("/proc/self/mountinfo").read_text().count(str(pinned.path)) == mounts.count(str(pinned.path)) == 0
    assert pinned.host("find . | sort") == tree
    pinned.host("mv .git g; rm -rf g a .vscode .claude")  # nothing is busy


def test_three_hundred_pins_hold(pinned: Guarded) -> None:
    pinned.host("for i in $(seq 300); do mkdir -p d$((i / 10))/$i; echo x > d$((i / 10))/$i/.envrc; done")
    output, found = pinned.command("for each in d*/*/.envrc; do echo evil > $each; done")
    assert output.count("Read-only") == 300
    assert found == ()


@pytest.mark.parametrize(
    ("script", "status", "left"),
    [
        ("git switch -q main", 0, " M .vscode/t\n"),
        ("git merge -q main", 1, " M f\n?? g\n"),
        ("git reset -q --hard main", 128, " M f\n?? g\n"),
        ("git merge -q main; git reset -q --hard", 0, "?? g\n"),
        ("git push -q -u bare other", 0, ""),
        ("git -c protocol.file.allow=always submodule --quiet add -q $PWD/bare sub", 0, "A  .gitmodules\nA  sub\n"),
    ],
)
def test_what_git_says_that_cannot_change_a_pinned_file(pinned: Guarded, script: str, status: int, left: str) -> None:
    """As docs/reference/later-files.md warns of: not all of it is told by the status."""
    pinned.host(TRACKED)
    output, _ = pinned.command(f"{{ {script}; }} > bare/said 2>&1; echo $?; git status -s; cat bare/said")
    assert output.startswith(f"{status}\n{left}error: ")
    assert "Read-only file system" in output or "could not write config file .git/config" in output


def test_commits_and_everything_else_work_in_a_pinned_repository(pinned: Guarded) -> None:
    pinned.host(REPOSITORY)
    output, found = pinned.command(
        """set -e
        echo 2 > f; git add f; git commit -q -m two; git checkout -q -b side; echo 3 > g; git add g; git commit -q -m three
        git checkout -q -; git merge -q side; git tag t; echo 4 > f; git stash -q; git stash pop -q; git commit -q -a -m four
        git branch gone; git branch -D gone > /dev/null; git rebase -q side; git gc -q; git fsck --no-progress 2>/dev/null
        git worktree add -q tree2; git worktree remove tree2; git -C a/b/c/d/e/deep commit -q --allow-empty -m x
        git -C tree commit -q --allow-empty -m y; git -C sub commit -q --allow-empty -m z; git log --oneline | wc -l; echo fine"""
    )
    assert "fine\n" in output, output
    assert found == ()

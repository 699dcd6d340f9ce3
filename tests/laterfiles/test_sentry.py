"""A sentry at its bounds: what it tells, in a forked child, beside a command that changes everything, without watches."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import hosts
from tests.laterfiles.conftest import Guarded


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

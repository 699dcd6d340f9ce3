"""Nothing is told of what succeeds, nor because of words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.confinement.places import confined, in_modes, repository, run
from tests.denials.told import PROGRAMS

pytestmark = pytest.mark.requires_ability("linux")


@in_modes()
def test_words_are_no_refusal(mode: str, workspace: Path) -> None:
    words = "open('/etc/shadow'): Permission denied; EACCES; Operation not permitted; Read-only file system; Connection refused"
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = broker.execute_command(("sh", "-c", f"echo \"{words}\" >&2; echo 'permission denied'; exit 126"))
    assert (result.exit_code, result.denials) == (126, ())


OWN = "echo x > a; mkdir b; mv a b/a; chmod 600 b/a; ln -s a b/l; rm -r b; echo x > $TMPDIR/x; echo x > $HOME/y"
STREAMS = "for each in stdout stderr null fd/2; do echo x > /dev/$each; done; (: > /dev/tty) 2>&-; true"
DESCRIPTORS = """
import os, tempfile
def change(handle):
    os.fchmod(handle, 0o600); os.fchown(handle, -1, -1); os.utime(handle)
with tempfile.TemporaryFile() as nameless, tempfile.NamedTemporaryFile() as named:
    change(nameless.fileno())
    os.unlink(named.name)
    change(named.fileno())
    open(named.name, "w").close()
ours = os.memfd_create("x")
change(ours)
reading, writing = os.pipe()
change(reading)
os.mkdir("gone"); os.chdir("gone"); os.rmdir("../gone")
try: open("new", "w")
except FileNotFoundError: pass
"""
"""What descriptors hold that have no name, or no longer that name."""
FROM_THE_LAST_ON = """
import os
def make_all(path):
    try: os.mkdir(path)
    except FileNotFoundError:
        make_all(os.path.dirname(path))
        os.mkdir(path)
for root in (os.environ["TMPDIR"] + "/its", os.environ["HOME"], os.getcwd()): make_all(root + "/one/two/" + "three" * 40)
"""
"""As node's mkdir and Rust's create_dir_all make directories."""
PEACEFUL = {
    "directories from the last on": ("python3", "-c", FROM_THE_LAST_ON),
    "descriptors": ("python3", "-c", DESCRIPTORS),
    "git commit": ("git", "commit", "-q", "--allow-empty", "-m", "another"),
    "python": ("python3", "-c", "import json, asyncio, subprocess, tempfile; tempfile.TemporaryFile(); print(1)"),
    "missing files": ("sh", "-c", "cat missing; rm -f missing; rmdir missing; > sub/missing; mkdir -p /tmp /usr; true"),
    "its own": ("sh", "-c", OWN),
    "streams": ("sh", "-c", STREAMS),
    "a look-up of a user": ("python3", "-c", "import os; os.path.expanduser('~nobody')"),
}


@pytest.mark.parametrize("name", PEACEFUL)
@in_modes()
def test_what_succeeds_is_told_nothing_of(mode: str, name: str, workspace: Path) -> None:
    repository(workspace)
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        assert run(broker, *PEACEFUL[name]).denials == ()


@in_modes()
def test_pytest_is_told_nothing_of(mode: str, workspace: Path) -> None:
    (workspace / "test_it.py").write_text("def test_it(tmp_path):\n    (tmp_path / 'x').write_text('x')\n")
    with confined(workspace, mode, unlocked=True, allowed_executables=(sys.executable,)) as broker:
        assert run(broker, sys.executable, "-m", "pytest", "-q", "-p", "no:fable_exec").denials == ()

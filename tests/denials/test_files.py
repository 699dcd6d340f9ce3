"""What is told of files: which call, on which path, and what stood in the way."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from fable_exec import Confinement
from fable_exec.outcome import Observed
from tests.confinement.places import Tree, confined, in_modes, repository, run
from tests.denials.told import PROGRAMS, python, told

pytestmark = pytest.mark.requires_ability("linux")


ATTEMPTS = """
import os, sys
outside, workspace = sys.argv[1:]
def attempt(act, *arguments):
    try:
        act(*arguments)
    except OSError:
        pass
attempt(open, outside + "/file", "w")
attempt(open, outside + "/new", "w")
attempt(os.open, outside + "/exclusive", os.O_CREAT | os.O_EXCL | os.O_RDWR)
attempt(os.truncate, outside + "/file", 0)
attempt(os.mkdir, outside + "/directory")
attempt(os.unlink, outside + "/file")
attempt(os.rename, outside + "/file", outside + "/renamed")
attempt(os.symlink, "x", outside + "/link")
attempt(os.mknod, outside + "/fifo", 0o10600)
os.chdir("/usr")
attempt(open, "relative", "w")
handle = os.open("/usr", os.O_RDONLY)
attempt(lambda: os.open("at", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
os.symlink(outside + "/file", workspace + "/way")
attempt(open, workspace + "/way", "w")
"""


@in_modes()
def test_changes_outside_are_told_with_operation_path_and_protection(mode: str, workspace: Path, outside: Path) -> None:
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        result = python(broker, ATTEMPTS, outside, workspace)
    assert result.success
    assert result.observed is Observed.CHANGES
    assert told(result) == {
        ("open for writing", f"{outside}/file", "host_writes"),
        ("open for writing", f"{outside}/new", "host_writes"),
        ("create", f"{outside}/exclusive", "host_writes"),
        ("truncate", f"{outside}/file", "host_writes"),
        ("mkdir", f"{outside}/directory", "host_writes"),
        ("unlink", f"{outside}/file", "host_writes"),
        ("rename", f"{outside}/file", "host_writes"),
        ("rename", f"{outside}/renamed", "host_writes"),
        ("symlink", f"{outside}/link", "host_writes"),
        ("mknod", f"{outside}/fifo", "host_writes"),
        ("open for writing", "/usr/relative", "host_writes"),
        ("open for writing", "/usr/at", "host_writes"),
    }


METADATA = """
import contextlib, os
file = os.open("/etc/passwd", os.O_RDONLY)
for act in (lambda: os.chmod("/etc/passwd", 0o600), lambda: os.fchmod(file, 0o600), lambda: os.chown("/etc/passwd", 0, 0),
            lambda: os.utime("/etc/passwd"), lambda: os.utime(file), lambda: os.setxattr("/etc/passwd", "user.x", b"y")):
    with contextlib.suppress(OSError):
        act()
"""


@in_modes("slots", "namespace")
def test_changes_of_metadata_outside_are_told(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        result = python(broker, METADATA)
    assert told(result) == {(word, "/etc/passwd", "host_metadata") for word in ("chmod", "chown", "utime", "setxattr")}


@in_modes()
def test_a_locked_workspace_is_told_as_such(mode: str, workspace: Path) -> None:
    (workspace / "here").write_text("here\n")
    before = Tree.of(workspace)
    text = "echo x > new; echo x > here; rm -f here; mkdir d; chmod 600 here; touch -d 2001-01-01 here; cat here"
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = broker.execute_command(("sh", "-c", text))
    assert before.changes(Tree.of(workspace)) == []
    assert {each.protection for each in result.denials} == {"workspace_writes"}
    found = {(each.operation, each.path) for each in result.denials}
    assert {("open for writing", "new"), ("open for writing", "here"), ("unlink", "here"), ("mkdir", "d")} <= found
    assert {"chmod", "utime"} <= {
        operation.removeprefix("f").removesuffix("at2").removesuffix("at") for operation, _ in found
    } | {"utime" if operation.startswith("ut") else operation for operation, _ in found}


@in_modes("slots", "namespace")
def test_files_that_run_later_are_told_as_such(mode: str, workspace: Path) -> None:
    repository(workspace)
    (workspace / ".envrc").write_text("kept\n")
    text = "echo x > .envrc; echo x > .git/hooks/pre-commit; mv .git away; git config a.b c; rm .envrc; true"
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        result = run(broker, "sh", "-c", text)
    assert (workspace / ".envrc").read_text() == "kept\n"
    assert {each.protection for each in result.denials} == {"later_files"}
    found = {(each.operation, each.path) for each in result.denials}
    assert {("open for writing", ".envrc"), ("open for writing", ".git/hooks/pre-commit"), ("rename", ".git")} <= found
    assert {("rename", ".git/config"), ("unlink", ".envrc")} <= found


READS = Confinement(observe="reads")


@in_modes()
def test_a_secret_that_is_read_is_told_where_that_is_asked_for(mode: str, workspace: Path, tmp_path: Path) -> None:
    secret = tmp_path / "home" / ".ssh" / "id_ed25519"
    secret.parent.mkdir(parents=True)
    secret.write_text("key\n")
    with confined(workspace, mode, confinement=READS, allowed_executables=PROGRAMS) as broker:
        result = broker.execute_command(("cat", str(secret)))
        assert told(run(broker, "sh", "-c", "cat missing; cat /usr/missing; cat /etc/passwd; true")) == set()
    assert result.observed is Observed.READS
    assert told(result) == {("open for reading", str(secret), "host_reads")}
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        assert told(broker.execute_command(("cat", str(secret)))) == set()


@in_modes("slots", "namespace")
def test_the_hosts_temporary_directory_is_told_of_where_the_private_one_lacks_something(mode: str, workspace: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as host, confined(workspace, mode, confinement=READS) as broker:
        Path(host, "file").write_text("outside\n")
        text = f"cat {host}/file; echo x > {host}/file; mkdir /tmp/own && echo x > /tmp/own/x && cat /tmp/own/missing; true"
        assert told(run(broker, "sh", "-c", text)) == {
            ("open for reading", f"{host}/file", "host_reads"),
            ("open for writing", f"{host}/file", "host_writes"),
        }

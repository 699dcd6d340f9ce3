"""A call that would fail on an open machine as well is no refusal, whatever stands in its way besides."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fable_exec import CommandResult, Confinement
from tests.confinement.places import confined, in_modes
from tests.denials.told import PROGRAMS, python, told

pytestmark = pytest.mark.requires_ability("linux")

HOW = """
import ctypes, errno, json, os, socket, sys
place, table = sys.argv[1], json.loads(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
def checked(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), "")
    return result
def at(name): return os.path.join(place, name)
def renameat2(old, new, flags): checked(libc.renameat2(-100, old.encode(), -100, new.encode(), flags))
def linkat(old, new, flags): checked(libc.linkat(-100, old.encode(), -100, new.encode(), flags))
answers = {}
for name, statement in table.items():
    try:
        eval(statement)
        answers[name] = ""
    except OSError as error:
        answers[name] = errno.errorcode[error.errno]
print(json.dumps(answers))
"""

FAULTS = {
    "rename nothing": ('os.rename(at("missing"), at("new"))', "ENOENT"),
    "rename nothing of the command's own": ('os.rename("missing", at("new"))', "ENOENT"),
    "rename nothing to the command's own": ('os.rename(at("missing"), "new")', "ENOENT"),
    "rename to where no directory is": ('os.rename(at("file"), at("missing/new"))', "ENOENT"),
    "rename a file over a directory": ('os.rename(at("file"), at("empty"))', "EISDIR"),
    "rename a directory over a file": ('os.rename(at("empty"), at("file"))', "ENOTDIR"),
    "rename a directory over a full one": ('os.rename(at("empty"), at("full"))', "ENOTEMPTY"),
    "rename into itself": ('os.rename(at("full"), at("full/below"))', "EINVAL"),
    "rename over what holds it": ('os.rename(at("full/directory"), at("full"))', "ENOTEMPTY"),
    "rename where one must not be replaced": ('renameat2(at("file"), at("link"), 1)', "EEXIST"),
    "exchange with nothing": ('renameat2(at("file"), at("new"), 2)', "ENOENT"),
    "rename the directory one is in": ('os.rename(at("full/."), at("new"))', "EBUSY"),
    "rename a file as a directory": ('os.rename(at("file/"), at("new"))', "ENOTDIR"),
    "rename a file to a directory's name": ('os.rename(at("file"), at("new/"))', "ENOTDIR"),
    "link nothing": ('os.link(at("missing"), at("new"))', "ENOENT"),
    "link nothing of the command's own": ('os.link("missing", at("new"))', "ENOENT"),
    "link a directory": ('os.link(at("empty"), at("new"))', "EPERM"),
    "link over a file": ('os.link(at("file"), at("link"))', "EEXIST"),
    "link through a link to nothing": ('linkat(at("dangling"), at("new"), 0x400)', "ENOENT"),
    "mkdir over a directory": ('os.mkdir(at("empty"))', "EEXIST"),
    "mkdir of the directory one is in": ('os.mkdir(at("."))', "EEXIST"),
    "mkdir over a link to nothing": ('os.mkdir(at("dangling"))', "EEXIST"),
    "mkdir below a file": ('os.mkdir(at("file/new"))', "ENOTDIR"),
    "mkdir below nothing": ('os.mkdir(at("missing/new"))', "ENOENT"),
    "mkdir above nothing": ('os.mkdir(at("missing/.."))', "ENOENT"),
    "mkdir of too long a name": ('os.mkdir(at("x" * 256))', "ENAMETOOLONG"),
    "mkdir of no name": ('os.mkdir("")', "ENOENT"),
    "rmdir nothing": ('os.rmdir(at("missing"))', "ENOENT"),
    "rmdir a file": ('os.rmdir(at("file"))', "ENOTDIR"),
    "rmdir a full directory": ('os.rmdir(at("full"))', "ENOTEMPTY"),
    "rmdir a full directory by its parent": ('os.rmdir("full", dir_fd=os.open(place, os.O_RDONLY))', "ENOTEMPTY"),
    "rmdir the directory one is in": ('os.rmdir(at("empty/."))', "EINVAL"),
    "unlink nothing": ('os.unlink(at("missing"))', "ENOENT"),
    "unlink a directory": ('os.unlink(at("empty"))', "EISDIR"),
    "unlink a file as a directory": ('os.unlink(at("file/"))', "ENOTDIR"),
    "symlink over a file": ('os.symlink("x", at("file"))', "EEXIST"),
    "symlink of a directory's name": ('os.symlink("x", at("new/"))', "ENOENT"),
    "mkfifo over a file": ('os.mkfifo(at("file"))', "EEXIST"),
    "mkfifo of a directory's name": ('os.mkfifo(at("new/"))', "ENOENT"),
    "truncate nothing": ('os.truncate(at("missing"), 0)', "ENOENT"),
    "truncate a directory": ('os.truncate(at("empty"), 0)', "EISDIR"),
    "truncate a pipe": ('os.truncate(at("pipe"), 0)', "EINVAL"),
    "open nothing": ('os.open(at("missing"), os.O_WRONLY)', "ENOENT"),
    "open a directory to write": ('os.open(at("empty"), os.O_WRONLY)', "EISDIR"),
    "create a directory's name": ('os.open(at("new/"), os.O_WRONLY | os.O_CREAT)', "EISDIR"),
    "create over a directory": ('os.open(at("empty"), os.O_WRONLY | os.O_CREAT)', "EISDIR"),
    "create what is there": ('os.open(at("file"), os.O_WRONLY | os.O_CREAT | os.O_EXCL)', "EEXIST"),
    "create below nothing": ('os.open(at("missing/new"), os.O_WRONLY | os.O_CREAT)', "ENOENT"),
    "open a link that is not followed": ('os.open(at("link"), os.O_WRONLY | os.O_NOFOLLOW)', "ELOOP"),
    "open links in a circle": ('os.open(at("circle"), os.O_WRONLY | os.O_CREAT)', "ELOOP"),
    "open a file as a directory": ('os.open(at("file"), os.O_WRONLY | os.O_DIRECTORY)', "ENOTDIR"),
    "a nameless file in a file": ('os.open(at("file"), os.O_WRONLY | os.O_TMPFILE)', "ENOTDIR"),
    "open no name": ('os.open("", os.O_WRONLY | os.O_CREAT)', "ENOENT"),
    "chmod nothing": ('os.chmod(at("missing"), 0o600)', "ENOENT"),
    "chown nothing": ('os.chown(at("missing"), -1, -1)', "ENOENT"),
    "touch nothing": ('os.utime(at("missing"))', "ENOENT"),
    "an attribute of nothing": ('os.setxattr(at("missing"), "user.x", b"y")', "ENOENT"),
    "an attribute of nothing is removed": ('os.removexattr(at("missing"), "user.x")', "ENOENT"),
}
"""What a call is about, the call, and how it fails on an open machine."""

CURED = {
    "rename": ('os.rename(at("file"), at("new"))', {("rename", "file"), ("rename", "new")}),
    "rename over a file": ('os.rename(at("file"), at("link"))', {("rename", "file"), ("rename", "link")}),
    "rename over an empty directory": ('os.rename(at("full"), at("empty"))', {("rename", "full"), ("rename", "empty")}),
    "rename to what is free": ('renameat2(at("file"), at("free"), 1)', {("rename", "file"), ("rename", "free")}),
    "exchange": ('renameat2(at("link"), at("full"), 2)', {("rename", "link"), ("rename", "full")}),
    "link": ('os.link(at("file"), at("second"))', {("link", "second")}),
    "link what a link leads to": ('linkat(at("link"), at("third"), 0x400)', {("link", "third")}),
    "link a link to nothing": ('linkat(at("dangling"), at("fourth"), 0)', {("link", "fourth")}),
    "mkdir": ('os.mkdir(at("made/"))', {("mkdir", "made")}),
    "mkdir of a long name": ('os.mkdir(at("x" * 255))', {("mkdir", "x" * 255)}),
    "rmdir": ('os.rmdir(at("empty"))', {("rmdir", "empty")}),
    "rmdir by the parent": ('os.rmdir("empty", dir_fd=os.open(place, os.O_RDONLY))', {("rmdir", "empty")}),
    "unlink": ('os.unlink(at("file"))', {("unlink", "file")}),
    "unlink a link to a directory": ('os.unlink(at("way"))', {("unlink", "way")}),
    "symlink": ('os.symlink("x", at("symbolic"))', {("symlink", "symbolic")}),
    "mkfifo": ('os.mkfifo(at("fifo"))', {("mknod", "fifo")}),
    "truncate": ('os.truncate(at("file"), 0)', {("truncate", "file")}),
    "open": ('os.open(at("file"), os.O_WRONLY)', {("open for writing", "file")}),
    "open through a link": ('os.open(at("link"), os.O_WRONLY)', {("open for writing", "file")}),
    "create": ('os.open(at("created"), os.O_WRONLY | os.O_CREAT)', {("open for writing", "created")}),
    "create to read": ('os.open(at("lock"), os.O_RDONLY | os.O_CREAT)', {("create", "lock")}),
    "create alone": ('os.open(at("alone"), os.O_WRONLY | os.O_CREAT | os.O_EXCL)', {("create", "alone")}),
    "create through a link to nothing": ('os.open(at("dangling"), os.O_WRONLY | os.O_CREAT)', {("open for writing", "target")}),
    "a nameless file": ('os.open(at("full"), os.O_WRONLY | os.O_TMPFILE)', {("create", "full")}),
}  # fmt: skip
"""The same calls without the fault, and what is told of each."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory beside the workspace with something of each kind in it, which stays as it is."""
    directory = tmp_path / "outside"
    fill(directory)
    before = sorted(directory.rglob("*"))
    yield directory
    assert sorted(directory.rglob("*")) == before


def fill(directory: Path) -> None:
    for each in ("", "empty", "full", "full/directory"):
        (directory / each).mkdir()
    (directory / "file").write_text("file\n")
    for name, target in (("link", "file"), ("dangling", "target"), ("circle", "circle"), ("way", "full")):
        (directory / name).symlink_to(target)
    os.mkfifo(directory / "pipe")


def answers(result: CommandResult) -> dict[str, str]:
    assert result.success, result.stderr
    return json.loads(result.stdout)  # type: ignore[no-any-return]  # as the program printed it


def statements(table: Mapping[str, tuple[str, object]]) -> str:
    return json.dumps({name: statement for name, (statement, _) in table.items()})


def test_the_faults_are_what_they_are_called(place: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", HOW, str(place), statements(FAULTS)]
    found = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert json.loads(found.stdout) == {name: number for name, (_, number) in FAULTS.items()}


@in_modes()
def test_nothing_is_told_of_calls_that_fail_for_their_names(mode: str, workspace: Path, place: Path) -> None:
    seen = Confinement(runtime_read_paths=(str(place),))
    with confined(workspace, mode, unlocked=True, confinement=seen, allowed_executables=PROGRAMS) as broker:
        result = python(broker, HOW, place, statements(FAULTS))
    assert answers(result).keys() == FAULTS.keys()
    assert told(result) == set()


@in_modes()
def test_nor_in_a_locked_workspace(mode: str, workspace: Path) -> None:
    fill(workspace / "place")
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = python(broker, HOW, workspace / "place", statements(FAULTS))
    assert "" not in answers(result).values()
    assert told(result) == set()


@in_modes()
def test_all_is_told_of_the_same_calls_without_the_fault(mode: str, workspace: Path, place: Path) -> None:
    seen = Confinement(runtime_read_paths=(str(place),))
    expected = {(word, f"{place}/{name}", "host_writes") for _, told_of in CURED.values() for word, name in told_of}
    with confined(workspace, mode, unlocked=True, confinement=seen, allowed_executables=PROGRAMS) as broker:
        result = python(broker, HOW, place, statements(CURED))
    assert "" not in answers(result).values()
    assert told(result) == expected


@in_modes()
def test_what_lies_on_another_file_system_cannot_be_moved_there_anyway(mode: str, workspace: Path, place: Path) -> None:
    if os.stat("/dev/shm").st_dev == place.stat().st_dev:
        pytest.skip("one file system holds both")
    seen = Confinement(runtime_read_paths=(str(place),))
    table = {"rename": ('os.rename(at("file"), "/dev/shm/new")', ""), "link": ('os.link("/dev/null", at("new"))', "")}
    with confined(workspace, mode, unlocked=True, confinement=seen, allowed_executables=PROGRAMS) as broker:
        assert told(python(broker, HOW, place, statements(table))) == set()


READING = {
    "nothing": ('os.open(at("missing"), os.O_RDONLY)', "ENOENT"),
    "a link that is not followed": ('os.open(at("link"), os.O_RDONLY | os.O_NOFOLLOW)', "ELOOP"),
    "links in a circle": ('os.open(at("circle"), os.O_RDONLY)', "ELOOP"),
    "a file as a directory": ('os.open(at("file/"), os.O_RDONLY)', "ENOTDIR"),
    "below a file": ('os.open(at("file/x"), os.O_RDONLY)', "ENOTDIR"),
}


@in_modes("plain")
def test_nothing_is_told_of_reads_that_fail_for_their_names(mode: str, workspace: Path, place: Path) -> None:
    seen, read = Confinement(observe="reads"), {"read": ('os.open(at("file"), os.O_RDONLY)', "")}
    with confined(workspace, mode, confinement=seen, allowed_executables=PROGRAMS) as broker:
        result = python(broker, HOW, place, statements(READING))
        assert answers(result) == {name: number for name, (_, number) in READING.items()}
        assert told(result) == set()
        assert told(python(broker, HOW, place, statements(read))) == {("open for reading", f"{place}/file", "host_reads")}


SUCCEEDS = {
    "a pipe": 'os.open(at("pipe"), os.O_RDWR | os.O_NONBLOCK)',
    "a file that is there, or would be made": 'os.open(at("file"), os.O_RDONLY | os.O_CREAT)',
}


@in_modes("slots", "namespace")
def test_what_a_read_only_place_allows_is_no_refusal(mode: str, workspace: Path, place: Path) -> None:
    seen = Confinement(runtime_read_paths=(str(place),), observe="reads")
    with confined(workspace, mode, unlocked=True, confinement=seen, allowed_executables=PROGRAMS) as broker:
        result = python(broker, HOW, place, json.dumps(SUCCEEDS))
    assert set(answers(result).values()) == {""}
    assert told(result) == set()


@pytest.mark.requires_ability("ordinary_user")
@in_modes()
def test_what_its_mode_keeps_from_the_user_is_no_refusal(mode: str, workspace: Path) -> None:
    (workspace / "kept").write_text("kept\n")
    (workspace / "kept").chmod(0o444)
    text = "cat /etc/shadow; echo x > /etc/passwd; echo x > kept; echo x > $0; true"
    with confined(workspace, mode, confinement=Confinement(observe="reads"), allowed_executables=PROGRAMS) as broker:
        result = broker.execute_command(("sh", "-c", text, str(workspace / "free")))
    assert told(result) == {("open for writing", "free", "workspace_writes")}


@in_modes("slots", "namespace")
def test_what_is_out_of_sight_may_be_there(mode: str, workspace: Path, place: Path) -> None:
    """Nobody inside can tell whether the host has it: that is told, and what else the same call was refused."""
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        result = python(broker, HOW, place, json.dumps({"": 'os.rename(at("file"), "/usr/new")'}))
    assert answers(result) == {"": errno.errorcode[errno.ENOENT]}
    assert told(result) == {("rename", f"{place}/file", "host_writes"), ("rename", "/usr/new", "host_writes")}

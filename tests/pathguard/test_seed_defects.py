"""Each defect of the broker's first version in this area (spec of path safety, last section), so that none comes back."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from fable_exec.errors import PathDenied, PathError, PathExists, PathIsDirectory, PathNotFound
from fable_exec.pathguard import PathProfile, Workspace, WorkspacePath
from tests import abilities
from tests.pathguard import scenes

RESOLVERS = [name for name in scenes.RESOLVERS if name != "openat2" or not abilities.missing("openat2")]


@pytest.fixture(params=RESOLVERS)
def held(request: pytest.FixtureRequest, workspace: Path) -> object:
    with Workspace.open(workspace, resolver=request.param) as opened:
        yield opened


def posix(text: str) -> WorkspacePath:
    return WorkspacePath.parse(text, PathProfile.POSIX)


def test_a_backslash_is_never_rewritten(held: Workspace, workspace: Path) -> None:
    (workspace / "a").mkdir()
    (workspace / "a" / "b").write_bytes(b"the wrong file")
    held.write_replace(posix("a\\b"), b"the right file")
    assert held.read(posix("a\\b")).data == b"the right file"
    assert (workspace / "a" / "b").read_bytes() == b"the wrong file"
    with pytest.raises(PathDenied, match="backslash"):
        WorkspacePath.parse("a\\b")


@pytest.mark.parametrize("text", ["./a//b", "a/./b", "a/b/"])
def test_dots_and_empty_names_are_dropped_by_rule(text: str) -> None:
    assert WorkspacePath.parse(text).components == ("a", "b")


def test_the_workspace_itself_can_be_named(held: Workspace) -> None:
    root = WorkspacePath.parse(".")
    assert held.list(root).entries == ()
    assert held.stat(root).kind.value == "directory"
    assert held.make_directories(root) == 0
    for act in (held.read, held.remove, held.remove_tree, held.remove_directory, held.open_file):
        with pytest.raises(PathIsDirectory):
            act(root)
    with pytest.raises(PathIsDirectory):
        held.write_replace(root, b"")
    with pytest.raises(PathExists):
        held.create_exclusive(root)
    with pytest.raises(PathError, match="invalid"):
        held.rename(root, posix("x"))


def test_a_fifo_is_never_waited_for(held: Workspace, workspace: Path) -> None:
    os.mkfifo(workspace / "p")
    for act in (held.read, held.open_file, lambda path: held.write_inplace(path, b""), lambda path: held.append(path, b"")):
        with pytest.raises(PathDenied) as refusal:
            act(posix("p"))
        assert refusal.value.reason == "not-regular"


def test_group_writable_files_of_the_users_own_group_are_private(
    held: Workspace, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "f").write_bytes(b"x")
    (workspace / "f").chmod(0o664)
    from fable_exec.pathguard import trust

    monkeypatch.setattr(trust, "_private_group_of", lambda user: (workspace / "f").stat().st_gid)
    assert held.read(posix("f"), trust="private").data == b"x"
    monkeypatch.setattr(trust, "_private_group_of", lambda user: None)
    with pytest.raises(PathDenied) as refusal:
        held.read(posix("f"), trust="private")
    assert refusal.value.reason == "writable-by-others"
    assert "file_trust" in str(refusal.value)
    assert held.read(posix("f")).data == b"x"


def test_files_with_two_names_are_read_unless_privacy_is_asked_for(held: Workspace, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"x")
    os.link(workspace / "f", workspace / "g")
    assert held.read(posix("f")).data == b"x"
    for act in (held.read, held.open_file):
        with pytest.raises(PathDenied) as refusal:
            act(posix("f"), trust="private")
        assert refusal.value.reason == "hard-link"
        assert "file_trust" in str(refusal.value)


def test_files_that_anyone_can_write_are_not_private(held: Workspace, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"x")
    (workspace / "f").chmod(0o646)
    with pytest.raises(PathDenied, match="writable-by-others"):
        held.read(posix("f"), trust="private")


def test_a_large_file_is_read_to_its_end(held: Workspace, workspace: Path) -> None:
    data = os.urandom(5_000_000)
    (workspace / "f").write_bytes(data)
    found = held.read(posix("f"))
    assert (found.data, found.total_bytes, found.truncated) == (data, len(data), False)


def test_replacing_keeps_the_execute_bit(held: Workspace, workspace: Path) -> None:
    (workspace / "run").write_bytes(b"#!/bin/sh\n")
    (workspace / "run").chmod(0o751)
    held.write_replace(posix("run"), b"#!/bin/bash\n")
    assert stat.S_IMODE((workspace / "run").stat().st_mode) == 0o751


def test_a_new_file_is_private_whatever_the_umask(held: Workspace, workspace: Path) -> None:
    old = os.umask(0)
    try:
        held.write_replace(posix("a/b"), b"")
        held.create_exclusive(posix("c"))
        held.append(posix("d"), b"", create=True)
    finally:
        os.umask(old)
    modes = {name: stat.S_IMODE((workspace / name).stat().st_mode) for name in ("a", "a/b", "c", "d")}
    assert modes == {"a": 0o700, "a/b": 0o600, "c": 0o600, "d": 0o600}


def test_making_a_directory_that_exists_is_no_error(held: Workspace) -> None:
    assert held.make_directories(posix("a/b")) == 2
    assert held.make_directories(posix("a/b")) == 0
    assert held.make_directories(posix("a/b/c")) == 1


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [("a/b/new\n", {}, "control"), ("a\n/b/new", {}, "control"), ("a/b/new/", {}, "is-directory"),
     ("a/b/f", {"expected_sha256": "0" * 64}, "not-found")],
)  # fmt: skip
def test_a_refused_write_leaves_no_directories_behind(
    held: Workspace, workspace: Path, text: str, options: dict[str, str], reason: str
) -> None:
    with pytest.raises((PathDenied, PathError)) as refusal:
        held.write_replace(posix(text), b"x", **options)  # type: ignore[arg-type]  # options from the table
    assert getattr(refusal.value, "reason", None) == reason
    assert os.listdir(workspace) == []


def test_a_directory_that_someone_else_uses_by_now_stays_when_the_write_fails(held: Workspace, workspace: Path) -> None:
    def use_and_fail() -> str:
        (workspace / "a" / "b" / "other").touch()
        raise KeyboardInterrupt

    held._fresh_name = use_and_fail
    with pytest.raises(KeyboardInterrupt):
        held.write_replace(posix("a/b/c/d"), b"x")
    assert sorted(path.name for path in workspace.rglob("*")) == ["a", "b", "other"]


@pytest.mark.parametrize("text", ["l", "l/", "l/x", "l/x/y", "d/l/x"])
def test_a_link_is_called_a_link(held: Workspace, workspace: Path, text: str) -> None:
    (workspace / "d").mkdir()
    (workspace / "l").symlink_to("d")
    (workspace / "d" / "l").symlink_to("../d")
    for act in (held.read, held.list, held.make_directories):
        with pytest.raises(PathDenied) as refusal:
            act(posix(text))
        assert refusal.value.reason == "symlink"


def test_a_directory_is_not_replaced(held: Workspace, workspace: Path) -> None:
    (workspace / "d").mkdir()
    for path in (posix("d"), posix("d/")):
        with pytest.raises(PathIsDirectory):
            held.write_replace(path, b"")
    assert os.listdir(workspace) == ["d"]


def test_the_root_is_what_was_opened_and_may_be_reached_by_a_link(workspace: Path) -> None:
    (workspace / "real").mkdir()
    (workspace / "link").symlink_to("real")
    with Workspace.open(workspace / "link") as held:
        assert held.identity == ((workspace / "real").stat().st_dev, (workspace / "real").stat().st_ino)
        assert held.path == str(workspace / "real")
        (workspace / "link").unlink()
        (workspace / "link").symlink_to("/etc")
        held.write_replace(posix("f"), b"x")
    assert (workspace / "real" / "f").read_bytes() == b"x"


@pytest.mark.parametrize(("name", "error"), [("nope", PathNotFound), ("file", PathError)])
def test_a_workspace_that_is_no_directory_is_an_error(workspace: Path, name: str, error: type[Exception]) -> None:
    (workspace / "file").touch()
    with pytest.raises(error):
        Workspace.open(workspace / name)


def test_a_replaced_file_is_never_seen_half(held: Workspace, workspace: Path) -> None:
    path = posix("f")
    held.write_replace(path, b"a" * 100_000)
    stop = threading.Event()
    failures = []

    def look() -> None:
        while not stop.is_set():
            data = (workspace / "f").read_bytes()
            if len(data) != 100_000 or len(set(data)) != 1:
                failures.append(data[:10])

    reader = threading.Thread(target=look)
    reader.start()
    for letter in b"bcdefghij":
        held.write_replace(path, bytes([letter]) * 100_000)
    stop.set()
    reader.join()
    assert failures == []

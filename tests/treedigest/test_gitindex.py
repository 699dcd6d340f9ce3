"""The reader of git indexes, beside git itself, and on bytes that no git wrote."""

from __future__ import annotations

import hashlib
import os
import random
import struct
import subprocess
import tracemalloc
from pathlib import Path

import pytest

from fable_exec.errors import StateUnreadable
from fable_exec.treedigest.gitindex import GITLINK, IndexLine, read_index

ENVIRONMENT = os.environ | {
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "LC_ALL": "C.UTF-8",
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.invalid",
    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.invalid",
}  # fmt: skip


def git(top: Path, *words: str, fails: bool = False) -> bytes:
    done = subprocess.run(["git", "-C", str(top), *words], env=ENVIRONMENT, capture_output=True)
    assert fails or done.returncode == 0, done.stderr
    return done.stdout


def repository(top: Path, *options: str, count: int = 300) -> Path:
    top.mkdir()
    git(top, "init", "-q", "-b", "main", *options, ".")
    for number in range(count):
        path = top / f"directory_{number % 7}" / ("long_" * (number % 40) + f"file{number}")
        path.parent.mkdir(exist_ok=True)
        path.write_text(str(number % 50))
    git(top, "add", "-A")
    return top


def lines_of(top: Path) -> list[IndexLine]:
    directory = top / ".git"
    return list(
        read_index((directory / "index").read_bytes(), "index", lambda oid: (directory / f"sharedindex.{oid}").read_bytes())
    )


def lines_by_git(top: Path) -> list[tuple[bytes, int, str, int]]:
    found = []
    for row in git(top, "ls-files", "-s", "-z").split(b"\0")[:-1]:
        facts, _, path = row.partition(b"\t")
        mode, oid, stage = facts.decode().split()
        found.append((path, int(mode, 8), oid, int(stage)))
    return found


def assert_as_git(top: Path) -> None:
    lines = lines_of(top)
    assert [(line.path, line.mode, line.oid, line.stage) for line in lines] == lines_by_git(top)
    assert len(lines) > 2


@pytest.mark.parametrize("version", [2, 3, 4])
def test_every_version_lists_what_git_lists(version: int, tmp_path: Path) -> None:
    top = repository(tmp_path / "r")
    git(top, "update-index", "--index-version", str(version), "--force-write-index", fails=True)
    if version > 2:
        git(top, "update-index", "--skip-worktree", "directory_1/long_file1")
    assert_as_git(top)


def test_a_repository_of_sha_256_lists_what_git_lists(tmp_path: Path) -> None:
    top = repository(tmp_path / "r", "--object-format=sha256")
    assert_as_git(top)
    assert {len(line.oid) for line in lines_of(top)} == {64}


def test_an_index_without_a_checksum_lists_what_git_lists(tmp_path: Path) -> None:
    top = repository(tmp_path / "r")
    data = (top / ".git/index").read_bytes()
    (top / ".git/index").write_bytes(data[:-20] + bytes(20))
    assert_as_git(top)


def test_a_split_index_lists_what_git_lists(tmp_path: Path) -> None:
    top = repository(tmp_path / "r")
    git(top, "update-index", "--split-index")
    assert_as_git(top)
    (top / "directory_2" / "added").write_text("new")
    (top / "directory_3" / "long_long_long_file3").write_text("replaced")
    git(top, "add", "-A")
    git(top, "rm", "-q", "--cached", "directory_4/long_long_long_long_file4")
    assert b"link" in (top / ".git/index").read_bytes()
    assert_as_git(top)


def test_a_split_index_with_another_shared_one_in_the_place_of_its_own_is_torn(tmp_path: Path) -> None:
    top = repository(tmp_path / "r", count=3)
    git(top, "update-index", "--split-index")
    (shared,) = (top / ".git").glob("sharedindex.*")
    other = shared.read_bytes()[:-20].replace(b"file0", b"fileX")
    shared.chmod(0o600)
    shared.write_bytes(sealed(other))
    git(top, "ls-files", fails=True)  # as for git
    with pytest.raises(StateUnreadable, match="shared index") as refused:
        lines_of(top)
    assert refused.value.reason == "torn"


def test_a_conflict_lists_every_stage(tmp_path: Path) -> None:
    top = repository(tmp_path / "r", count=3)
    git(top, "commit", "-qm", "base")
    for branch in ("one", "two"):
        git(top, "checkout", "-qb", branch, "main")
        (top / "directory_0/file0").write_text(branch)
        git(top, "commit", "-qam", branch)
    git(top, "merge", "one", fails=True)
    assert_as_git(top)
    assert {line.stage for line in lines_of(top)} == {0, 1, 2, 3}


def test_marks_tell_where_git_was_told_to_look_away(tmp_path: Path) -> None:
    top = repository(tmp_path / "r", count=3)
    git(top, "update-index", "--assume-unchanged", "directory_0/file0")
    git(top, "update-index", "--skip-worktree", "directory_1/long_file1")
    (top / "later").write_text("x")
    git(top, "add", "-N", "later")
    assert [line.marks for line in lines_of(top)] == ["v", "s", "", "i"]


def test_a_sparse_index_is_refused_with_what_to_do(tmp_path: Path) -> None:
    top = repository(tmp_path / "r")
    git(top, "commit", "-qm", "c")
    git(top, "sparse-checkout", "init", "--cone", "--sparse-index")
    git(top, "sparse-checkout", "set", "directory_1")
    with pytest.raises(StateUnreadable, match="no-sparse-index") as refused:
        lines_of(top)
    assert refused.value.reason == "foreign"


def sealed(data: bytes) -> bytes:
    return data + hashlib.sha1(data, usedforsecurity=False).digest()


def test_an_index_that_is_cut_anywhere_is_torn(tmp_path: Path) -> None:
    top = repository(tmp_path / "r", count=5)
    data = (top / ".git/index").read_bytes()[:-20]
    for length in range(12, len(data)):
        try:
            lines = read_index(sealed(data[:length]), "index", lambda _: b"")
        except StateUnreadable as error:
            assert error.reason in ("torn", "foreign", "newer")
        else:
            assert len(lines) == 5  # only extensions were cut, at their border


def test_an_index_with_any_bytes_changed_is_read_or_refused_and_nothing_else(tmp_path: Path) -> None:
    top = repository(tmp_path / "r", count=20)
    git(top, "update-index", "--index-version", "4")
    git(top, "update-index", "--split-index")
    (top / "directory_0/file0").write_text("replaced")
    git(top, "add", "-A")
    index = (top / ".git/index").read_bytes()[:-20]
    shared = {path.name.partition(".")[2]: path.read_bytes() for path in (top / ".git").glob("sharedindex.*")}
    drawn = random.Random(7)
    refused = 0
    for _ in range(3000):
        changed = bytearray(index)
        for _ in range(drawn.randint(1, 4)):
            changed[drawn.randrange(len(changed))] = drawn.randrange(256)
        try:
            read_index(sealed(bytes(changed)), "index", lambda oid: shared.get(oid, b""))
        except StateUnreadable:
            refused += 1
    assert 300 < refused < 3000


@pytest.mark.parametrize(
    "data, reason",
    [
        (b"", "torn"),
        (bytes(100), "torn"),
        (b"#!/bin/sh\n" * 9, "foreign"),
        (sealed(b"DIRC" + (5).to_bytes(4, "big") + bytes(32)), "newer"),
        (sealed(b"DIRC" + (1).to_bytes(4, "big") + bytes(32)), "foreign"),
        (b"DIRC" + (2).to_bytes(4, "big") + bytes(4) + b"x" * 32, "torn"),
        (sealed(b"DIRC" + (2).to_bytes(4, "big") + b"\xff" * 4 + bytes(80)), "torn"),
        (sealed(b"DIRC" + (2).to_bytes(4, "big") + bytes(4) + b"what" + bytes(4)), "newer"),
    ],
)
def test_what_is_no_index_is_refused_with_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(StateUnreadable) as refused:
        read_index(data, "index", lambda _: b"")
    assert refused.value.reason == reason


def written(*entries: tuple[bytes, int], version: int = 2) -> bytes:
    """An index as anybody could write one: a name, or what version 4 adds to the name before it, and a mode each."""
    data = bytearray(b"DIRC" + struct.pack(">II", version, len(entries)))
    for name, mode in entries:
        row = struct.pack(">24xI12x20sH", mode, b"\1" * 20, min(len(name), 0xFFF))
        data += row + b"\0" + name + b"\0" if version == 4 else row + name + bytes(8 - (len(row + name) % 8))
    return sealed(bytes(data))


ODD_PATHS = [b".", b"..", b"./a", b"a/.", b"a/./b", b"../a", b"a/..", b"a/../b", b"a//b", b"a/", b"/a", b"/", b"", b"a\0b"]


@pytest.mark.parametrize("mode", [0o100644, GITLINK])
@pytest.mark.parametrize("path", ODD_PATHS)
def test_a_path_that_is_not_made_of_names_is_refused(path: bytes, mode: int) -> None:
    for entries in ([(path, mode)], [(b"a", mode), (path, mode), (b"b", mode)]):
        with pytest.raises(StateUnreadable) as refused:
            read_index(written(*entries), "index", lambda _: b"")
        assert refused.value.reason == "foreign"
    assert len(read_index(written((b"...", mode), (b".a/b.", mode), (b"a/..b", mode)), "index", lambda _: b"")) == 3


def test_names_that_are_written_short_may_not_become_long_without_end() -> None:
    bomb = written((b"a" * 4000, 0o100644), *[(b"b", 0o100644)] * 5000, version=4)
    tracemalloc.start()
    try:
        with pytest.raises(StateUnreadable) as refused:
            read_index(bomb, "index", lambda _: b"")
        assert refused.value.reason == "torn"
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()

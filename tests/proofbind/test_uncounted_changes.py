"""Where what a working tree changed cannot be told there are no numbers, and the reason is said."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.proofbind.counted import numbers, why_not
from tests.proofbind.repositories import asked_of_git, commit_all, git, head_of, new_repository

pytestmark = pytest.mark.requires_ability("git")


def _unmerged(top: Path) -> None:
    for branch, text in (("x", "x\n"), ("y", "y\n")):
        git(top, "checkout", "-q", "-b", branch, "main")
        (top / "a").write_text(text)
        commit_all(top)
    git(top, "merge", "-q", "x", may_differ=True)


def _sparse(top: Path) -> None:
    git(top, "update-index", "--skip-worktree", "a")
    (top / "a").unlink()


def _filtered(top: Path) -> None:
    (top / ".gitattributes").write_text("a filter=lfs\n")
    (top / "a").write_text("other\n")


def _encoded(top: Path) -> None:
    (top / ".gitattributes").write_text("* working-tree-encoding=UTF-16LE\n")
    (top / "new").write_text("1\n", encoding="utf-16-le")


def _submodule(top: Path) -> None:
    inner = new_repository(top / "sub")
    commit_all(inner)
    git(top, "-c", "advice.addEmbeddedRepo=false", "add", "sub")
    commit_all(top)


def _nested(top: Path) -> None:
    new_repository(top / "nested")


def _fifo(top: Path) -> None:
    (top / "a").unlink()
    os.mkfifo(top / "a")


def _index_cut(top: Path) -> None:
    index = top / ".git/index"
    index.write_bytes(index.read_bytes()[:-30])


def _no_blob(top: Path) -> None:
    oid = git(top, "rev-parse", "HEAD:a").decode().strip()
    (top / ".git/objects" / oid[:2] / oid[2:]).unlink()
    (top / "a").write_text("other\n")


def _other_blob(top: Path) -> None:
    """Whoever writes to the workspace can put another text under the name of the base's."""
    oid = git(top, "rev-parse", "HEAD:a").decode().strip()
    stored = top / ".git/objects" / oid[:2] / oid[2:]
    stored.unlink()
    (top / "a").write_text("other\n")
    stored.write_bytes(zlib.compress(b"blob 6\0other\n"))


def _linked_objects(top: Path) -> None:
    (top / ".git/objects").rename(top.parent / "objects")
    (top / ".git/objects").symlink_to(top.parent / "objects")


def _alternates(top: Path) -> None:
    """The objects are there for git, in a place that the workspace names."""
    (top / ".git/objects").rename(top.parent / "objects")
    (top / ".git/objects/info").mkdir(parents=True)
    (top / ".git/objects/info/alternates").write_text(f"{top.parent}/objects\n")
    assert head_of(top) and git(top, "cat-file", "-t", "HEAD") == b"commit\n"


def _no_repository(top: Path) -> None:
    shutil.rmtree(top / ".git")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_unmerged, "unmerged"), (_sparse, "sparse"), (_filtered, "filtered"), (_encoded, "filtered"), (_submodule, "submodule"),
        (_nested, "nested-repository"), (_fifo, "special"), (_index_cut, "repository-unreadable"), (_no_blob, "object-missing"),
        (_other_blob, "objects-damaged"), (_linked_objects, "unreadable"), (_alternates, "base-missing"),
        (_no_repository, "no-repository"),
    ],
    ids=lambda each: each.__name__ if callable(each) else each,
)  # fmt: skip
def test_what_cannot_be_told_has_no_numbers(make: Callable[[Path], None], why: str, repository: Path) -> None:
    base = head_of(repository)
    make(repository)
    if why == "submodule":
        base = head_of(repository)
    assert why_not(repository, base) == why


def test_a_submodule_at_another_commit_counts_as_git_counts_it(repository: Path) -> None:
    _submodule(repository)
    base = head_of(repository)
    commit_all(repository / "sub")
    assert numbers(repository, base) == asked_of_git(repository, base)
    shutil.rmtree(repository / "sub")
    assert numbers(repository, base) == asked_of_git(repository, base)
    (repository / "sub").mkdir()  # as after a clone without its submodules
    assert numbers(repository, base) == asked_of_git(repository, base)


@pytest.mark.parametrize("base", ["main", "HEAD", "--output=x", "b6b765d6", "B" * 40, "0" * 39, "0" * 41, "", "0" * 40 + "\n"])
def test_a_base_is_a_full_object_id(base: str, repository: Path) -> None:
    assert why_not(repository, base) == "base-no-id"


def test_an_object_that_is_no_commit_is_no_base(repository: Path) -> None:
    assert why_not(repository, git(repository, "rev-parse", "HEAD:a").decode().strip()) == "base-no-commit"
    assert why_not(repository, "1" * 40) == "base-missing"


def test_time_is_bounded_with_and_without_git(repository: Path, tmp_path: Path) -> None:
    base = head_of(repository)
    (repository / "a").write_text("1\n")
    assert why_not(repository, base, deadline_seconds=0) == "deadline"
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    assert why_not(repository, base, git=str(slow), deadline_seconds=0.3) == "deadline"


def test_a_git_that_fails_or_is_not_there_gives_no_numbers(repository: Path, tmp_path: Path) -> None:
    base = head_of(repository)
    assert numbers(repository, base, git="/nonexistent/git")["count"] == 0  # it is not needed
    (repository / "a").write_text("1\n")
    assert why_not(repository, base, git="/nonexistent/git") == "no-git"
    assert why_not(repository, base, git=shutil.which("sh")) == "git-failed"
    assert why_not(repository, base, scratch=tmp_path / "nowhere") == "no-room"


@pytest.mark.requires_ability("ordinary_user")
def test_a_directory_that_cannot_be_listed_hides_nothing(repository: Path) -> None:
    base = head_of(repository)
    (repository / "d").chmod(0)
    try:
        assert why_not(repository, base) == "unreadable"
    finally:
        (repository / "d").chmod(0o700)

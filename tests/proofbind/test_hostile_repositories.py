"""Repositories that are made to harm whoever counts what was changed in them."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fable_exec.proofbind.changes import CannotTell
from fable_exec.proofbind.changes.bases import Blob
from fable_exec.proofbind.changes.copies import _index_bytes
from tests.proofbind.counted import numbers, why_not
from tests.proofbind.repositories import commit_all, git, head_of

pytestmark = pytest.mark.requires_ability("git")


def _write_index(repository: Path, blobs: dict[str, Blob]) -> None:
    (repository / ".git/index").write_bytes(_index_bytes(blobs, "sha1"))


@pytest.mark.parametrize("path", ["../../outside/.gitattributes", "/{outside}/.gitattributes", "d/../../x", "a//b", "./a", ""])
def test_an_index_that_names_a_path_elsewhere_writes_nothing_there(path: str, repository: Path, tmp_path: Path) -> None:
    base = head_of(repository)
    (tmp_path / "outside").mkdir()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    oid = git(repository, "rev-parse", "HEAD:a").decode().strip()
    _write_index(repository, {path.format(outside=tmp_path / "outside"): Blob(0o100644, oid)})
    assert why_not(repository, base, scratch=scratch) == "repository-unreadable"
    assert (list((tmp_path / "outside").iterdir()), list(scratch.iterdir())) == ([], [])


def test_what_lies_below_a_link_of_the_tree_is_not_copied_through_it(repository: Path, tmp_path: Path) -> None:
    (repository / "d/.gitattributes").write_text("b -diff\n")
    base = commit_all(repository)
    (tmp_path / "outside").mkdir()
    shutil.rmtree(repository / "d")
    (repository / "d").symlink_to(tmp_path / "outside")
    found = numbers(repository, base)
    assert [each["path"] for each in found["files"]] == ["d", "d/.gitattributes", "d/b"]
    assert list((tmp_path / "outside").iterdir()) == []


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
def test_an_index_of_any_content_is_answered(data: st.DataObject, repository: Path) -> None:
    base = head_of(repository)
    whole = (repository / ".git/index").read_bytes()
    content = bytearray(whole[:-20])
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(12, len(content) - 1))] = data.draw(st.integers(0, 255))
    (repository / ".git/index").write_bytes(content + hashlib.sha1(content, usedforsecurity=False).digest())
    try:
        numbers(repository, base)
    except CannotTell as reason:
        assert reason.why
    finally:
        (repository / ".git/index").write_bytes(whole)


def test_a_tree_that_names_itself_large_is_bounded(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty levels of a few objects are a billion paths."""
    monkeypatch.setattr("fable_exec.proofbind.changes.bases._MAX_PATHS", 2000)
    tree = git(repository, "rev-parse", "HEAD:d").decode().strip()
    for _ in range(30):
        rows = "".join(f"040000 tree {tree}\t{name}\n" for name in "xy")
        tree = git(repository, "mktree", given=rows.encode()).decode().strip()
    assert why_not(repository, tree) == "too-large"


@pytest.mark.parametrize("names", [["a"], ["new/.gitignore", "new/d/.gitignore", ".gitattributes"]])
def test_files_that_take_no_room_do_not_fill_the_place_of_the_copies(
    names: list[str], repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fable_exec.proofbind.changes.copies._MAX_BYTES", 8 << 20)
    (repository / "new/d").mkdir(parents=True)
    for name in names:
        with (repository / name).open("w") as file:
            file.truncate(9 << 20 if name == "a" else 4 << 20)
    assert why_not(repository, head_of(repository)) == "too-large"


def test_many_packs_do_not_take_the_descriptors_of_the_host(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = head_of(repository)
    git(repository, "gc", "-q")
    pack = next((repository / ".git/objects/pack").glob("*.pack"))
    for number in range(250):
        for suffix in ("pack", "idx"):
            os.link(pack.with_suffix(f".{suffix}"), pack.parent / f"pack-{number:040x}.{suffix}")
    assert why_not(repository, base) == "too-large"


@pytest.mark.parametrize("broken", ["diff", "check-ignore", "check-attr"])
def test_a_git_that_is_cut_off_is_not_believed_whatever_its_status(broken: str, repository: Path, tmp_path: Path) -> None:
    """A host that ignores SIGCHLD sees 0 of every child."""
    base = head_of(repository)
    (repository / "a").write_text("1\n")
    (repository / "new").write_text("1\n")
    (repository / ".gitignore").write_text("*.log\n")
    (repository / ".gitattributes").write_text("*.x -diff\n")
    script = tmp_path / "git"
    script.write_text(f'#!/bin/sh\ncase "$2" in {broken}) git "$@" | head -c 12; exit 0;; esac\nexec git "$@"\n')
    script.chmod(0o755)
    assert why_not(repository, base, git=str(script)) == "git-failed"

"""Counting what a working tree changed runs nothing that the tree, or its repository, names."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.proofbind.counted import numbers, why_not
from tests.proofbind.repositories import commit_all, git, head_of, new_repository

pytestmark = pytest.mark.requires_ability("git")


PROGRAMS = {
    "config": """
[core]
    fsmonitor = {bin}/fsmonitor
    hooksPath = {top}/hooks
    pager = {bin}/pager
    sshCommand = {bin}/ssh
    alternateRefsCommand = {bin}/alternates
    askPass = {bin}/askpass
    gitProxy = {bin}/proxy
[include]
    path = ../included
[filter "f"]
    clean = {bin}/clean
    smudge = {bin}/smudge
[filter "p"]
    process = {bin}/process
[diff]
    external = {bin}/external
[diff "d"]
    textconv = {bin}/textconv
    command = {bin}/command
    cachetextconv = true
[interactive]
    diffFilter = {bin}/difffilter
[extensions]
    partialClone = origin
[remote "origin"]
    promisor = true
    url = ext::{bin}/fetch
[protocol]
    allow = always
[credential]
    helper = {bin}/credential
[gpg]
    program = {bin}/gpg
[log]
    showSignature = true
""",
    "included": """
[core]
    attributesFile = {top}/attributes
[diff]
    external = {bin}/included
""",
}
HOOKS = ("post-index-change", "fsmonitor-watchman", "pre-auto-gc", "post-checkout", "reference-transaction")


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[tuple[Path, str, Callable[[], set[str]]]]:
    """A repository full of programs that would leave a mark, its base, and the marks that were left."""
    top = new_repository(tmp_path / "planted")
    (top / ".gitattributes").write_text("*.f filter=f\n*.p filter=p\n*.c diff=d\n")
    (top / "same.f").write_text("f\n")
    (top / "same.p").write_text("p\n")
    (top / "old.c").write_text("1\n2\n")
    base = commit_all(top)
    marks = tmp_path / "marks"
    marks.mkdir()
    places = {"bin": str(top / "bin"), "top": str(top)}
    for directory in ("bin", "hooks"):
        (top / directory).mkdir()
    text = PROGRAMS["config"].format(**places)
    names = [*{word.rpartition("/")[2] for word in text.split() if word.startswith(f"{top}/bin/")}, "fetch", "included", "git"]
    for program in [*(top / "bin" / name for name in names), *(top / "hooks" / name for name in HOOKS)]:
        program.write_text(f"#!/bin/sh\n: > {marks}/{program.name}\ncat\n")
        program.chmod(0o755)
    with (top / ".git/config").open("a") as file:
        file.write(text)
    (top / "included").write_text(PROGRAMS["included"].format(**places))
    (top / "attributes").write_text("*.h filter=f diff=d\n")
    (top / ".git/objects/info/alternates").write_text(f"{tmp_path}/elsewhere\n")
    (top / "old.c").write_text("1\n3\n")
    (top / "new.c").write_text("1\n")
    yield top, base, lambda: {mark.name for mark in marks.iterdir()}


def test_nothing_that_a_workspace_names_is_run(
    planted: tuple[Path, str, Callable[[], set[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    top, base, marks = planted
    monkeypatch.setenv("PATH", f"{top}/bin:{os.defpath}")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"{top}/bin/external")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", f"{top}/bin/fsmonitor")
    monkeypatch.setenv("GIT_DIR", f"{top}/.git")
    monkeypatch.setenv("HOME", str(top))
    monkeypatch.setenv("GIT_EXEC_PATH", f"{top}/bin")
    monkeypatch.chdir(top)
    found = {each["path"]: each for each in numbers(top, base)["files"]}
    assert (found["old.c"]["insertions"], found["old.c"]["deletions"]) == (1, 1)
    assert "same.f" not in found and found["new.c"]["insertions"] == 1
    (top / "same.f").write_text("changed\n")
    assert why_not(top, base) == "filtered"
    assert marks() == set()


def test_the_same_programs_are_run_by_a_git_in_the_workspace(planted: tuple[Path, str, Callable[[], set[str]]]) -> None:
    """Otherwise the test before would show nothing."""
    top, base, marks = planted
    (top / "same.f").write_text("changed\n")
    (top / ".gitattributes").write_text("*.f filter=f\n*.p filter=p\n*.c diff=d\n#\n")
    for arguments in (("status",), ("diff", base, "--", "old.c"), ("diff", base, "--", ".gitattributes"), ("add", "same.f")):
        with contextlib.suppress(AssertionError):  # the filters do not speak git's language
            git(top, *arguments)
    (top / "same.p").touch()
    with contextlib.suppress(AssertionError):
        git(top, "add", "same.p")
    assert {"fsmonitor", "post-index-change", "clean", "process", "external", "command"} <= marks()


def test_git_is_told_of_nothing_but_copies(repository: Path, tmp_path: Path) -> None:
    base = head_of(repository)
    (repository / "a").write_text("1\n")
    (repository / ".gitattributes").write_text("* text\n")
    (repository / ".gitignore").write_text("*.log\n")
    told = tmp_path / "told"
    spy = tmp_path / "spy"
    spy.write_text(
        f'#!/bin/sh\n{{ echo "$@"; pwd; env; cat "$GIT_DIR/config"; ls -la "$GIT_DIR" .; }} >> {told}\nexec git "$@"\n'
    )
    spy.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    assert numbers(repository, base, git=str(spy), scratch=scratch) == numbers(repository, base)
    assert "diff --numstat" in told.read_text() and "check-ignore" in told.read_text()
    assert str(repository) not in told.read_text()
    assert list(scratch.iterdir()) == []

"""What a working tree changed since a commit: the numbers of git, from a git that never sees the tree."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fable_exec.pathguard import Workspace
from fable_exec.proofbind.changes import CannotTell, diff_stat
from fable_exec.proofbind.changes.bases import Blob
from fable_exec.proofbind.changes.copies import _index_bytes
from fable_exec.proofbind.changes.objects import open_objects
from tests.proofbind.repositories import asked_of_git, commit_all, git, head_of, new_repository

pytestmark = pytest.mark.requires_ability("git")


def numbers(repository: Path, base: str, **options: Any) -> dict[str, Any]:
    with Workspace.open(repository) as workspace:
        return diff_stat(workspace, base, **options).members()


def why_not(repository: Path, base: str, **options: Any) -> str:
    with pytest.raises(CannotTell) as told:
        numbers(repository, base, **options)
    assert told.value.detail
    return told.value.why


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = new_repository(tmp_path_factory.mktemp("original") / "repository")
    (made / "d").mkdir()
    (made / "a").write_text("1\n2\n3\n")
    (made / "d/b").write_text("x\n")
    commit_all(made)
    return made


@pytest.fixture
def repository(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "repository"))


# The numbers


def _lines(count: int, changed: tuple[int, ...] = ()) -> str:
    return "".join(f"line {number}{'!' if number in changed else ''}\n" for number in range(count))


def _first_state(top: Path) -> None:
    for directory in ("d/e", "gone", "becomes", "rules", "stays"):
        (top / directory).mkdir(parents=True)
    for name, text in {
        "long": _lines(400), "d/e/deep": _lines(30), "gone/one": "1\n2\n", "gone/no-end": "1\n2", "mode": "m\n", "same": "s\n",
        "to-link": "1\n2\n3\n", "becomes/x": "x\n", "stays/.gitattributes": "*.svg binary\n",
        "rules/.gitattributes": "*.svg binary\n", "rules/a.svg": "1\n2\n", "stays/a.svg": "1\n", "cr.txt": "1\n2\n",
        "uncached": "u\n", "blob.bin": "1\0\n", "empty": "", ".gitattributes": "*.txt text=auto\n*.dat -diff\n",
        ".gitignore": "*.log\n!keep.log\n/build/\n",
    }.items():  # fmt: skip
        (top / name).write_text(text)
    (top / "link").symlink_to("long")
    (top / "to-file").symlink_to("long")
    (top / ".loki").mkdir()
    (top / ".loki/tracked").write_text("engine\n")


def _second_state(top: Path) -> None:
    (top / "long").write_text(_lines(400, (3, 17, 18, 200, 399)) + "more\nwithout end")
    (top / "d/e/deep").write_text("before\n" + _lines(25))
    shutil.rmtree(top / "gone")
    (top / "mode").chmod(0o755)
    (top / "same").touch()
    (top / "to-link").unlink()
    (top / "to-link").symlink_to("long")
    shutil.rmtree(top / "becomes")
    (top / "becomes").symlink_to("d")
    (top / "rules/.gitattributes").unlink()
    (top / "rules/a.svg").write_text("1\n3\n4\n")
    (top / "stays/a.svg").write_text("2\n")
    (top / "cr.txt").write_bytes(b"1\r\n2\r\n3\r\n")
    (top / "blob.bin").write_bytes(b"2\0\n")
    (top / "link").unlink()
    (top / "link").symlink_to("same")
    (top / "to-file").unlink()
    (top / "to-file").write_text("f\n")
    (top / "added").write_text("tracked\nlater\n")
    (top / ".loki/tracked").write_text("engine, changed\n")


def _third_state(top: Path) -> None:
    """What git does not track."""
    for directory in ("build/x", "un/tracked", "ignored"):
        (top / directory).mkdir(parents=True)
    for name in ("build/x/file", "some.log", "keep.log", "un/tracked/a.log", "un/tracked/keep.log", "new", ":(top)x", "line\nend",
                 "ignored/a", "é"):  # fmt: skip
        (top / name).write_text("1\n2\n3")
    (top / "un/.gitignore").write_text("tracked/*.tmp\n")
    (top / "un/tracked/x.tmp").write_text("1\n")
    (top / "none").write_text("")
    (top / "new.dat").write_text("1\n")
    (top / "stays/new.svg").write_text("1\n")
    (top / "nul").write_bytes(b"a\0b")
    (top / "late-nul").write_bytes(b"a\n" * 4000 + b"\0\n")
    (top / "to-nothing").symlink_to("nowhere")
    (Path(os.fsdecode(os.fsencode(top) + b"/\xff\xfe"))).write_text("1\n")
    os.mkfifo(top / "fifo")
    (top / ".loki/more").write_text("1\n")
    with (top / ".git/info/exclude").open("a") as file:
        file.write("/ignored/\n")
    new_repository(top / "build/nested")
    (top / "build/nested/file").write_text("1\n")


@pytest.mark.parametrize("kind", ["sha1", "sha256"])
def test_the_numbers_are_those_of_git(kind: str, tmp_path: Path) -> None:
    top = new_repository(tmp_path / "top", f"--object-format={kind}")
    _first_state(top)
    base = commit_all(top, "first")
    _second_state(top)
    git(top, "add", "-A")
    if kind == "sha256":
        git(top, "commit", "-q", "-m", "second")
        git(top, "gc", "-q")  # with deltas in a pack; the other case reads single objects
        assert not list((top / ".git/objects").glob("??/*"))
    git(top, "rm", "-q", "--cached", "uncached")
    (top / "intended").write_text("1\n2\n")
    git(top, "add", "-N", "intended")
    (top / "added").write_text("tracked\nlater\nand changed\n")
    _third_state(top)
    found = numbers(top, base)
    assert found == asked_of_git(top, base)
    assert found["count"] > 25
    tree = git(top, "rev-parse", f"{base}^{{tree}}").decode().strip()
    git(top, "tag", "-a", "-m", "t", "tag", base)
    tag = git(top, "rev-parse", "tag").decode().strip()
    assert numbers(top, tree) == numbers(top, tag) == found


def test_a_linked_worktree_has_its_own_numbers(repository: Path, tmp_path: Path) -> None:
    base = head_of(repository)
    git(repository, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    (tmp_path / "linked/a").write_text("1\n")
    (tmp_path / "linked/new").write_text("1\n")
    found = numbers(tmp_path / "linked", base)
    assert found == asked_of_git(tmp_path / "linked", base)
    assert (found["count"], found["deletions"]) == (2, 2)


def test_what_the_index_says_of_files_is_not_believed(repository: Path) -> None:
    base = head_of(repository)
    git(repository, "update-index", "--assume-unchanged", "a")
    before = (repository / "d/b").stat()
    (repository / "a").write_text("1\n")
    (repository / "d/b").write_text("y\n")
    os.utime(repository / "d/b", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [each["path"] for each in numbers(repository, base)["files"]] == ["a", "d/b"]
    assert [each["path"] for each in asked_of_git(repository, base)["files"]] == ["d/b"]  # git believes it


def test_a_file_that_is_the_bases_byte_for_byte_is_unchanged(repository: Path) -> None:
    """git says so or not by what the time stamps are: it would be another one if it were added."""
    (repository / "crlf.txt").write_bytes(b"1\r\n")
    base = commit_all(repository)
    (repository / ".git/info/attributes").write_text("*.txt text\n")
    assert numbers(repository, base)["count"] == 0


def test_links_of_all_kinds_are_never_gone_through(repository: Path, tmp_path: Path) -> None:
    base = head_of(repository)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b").write_text("x\n")
    (outside / ".gitignore").write_text("*\n")
    shutil.rmtree(repository / "d")
    (repository / "d").symlink_to(outside)
    (repository / ".gitignore").symlink_to(outside / ".gitignore")
    found = {each["path"]: each for each in numbers(repository, base)["files"]}
    assert found.keys() == {".gitignore", "d", "d/b"}
    assert (found["d/b"]["deletions"], found["d"]["insertions"], found["d"]["status"]) == (1, 1, "untracked")


def _random_state(top: Path, chance: random.Random, names: list[str]) -> None:
    for name in names:
        path, draw = top / name, chance.random()
        try:
            if draw < 0.15:
                path.unlink()
            elif draw < 0.25:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.symlink_to(chance.choice(["nowhere", "a\nb", "../x"]))
            elif draw < 0.7:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(_random_content(chance, path.name))
                path.chmod(chance.choice([0o644, 0o755]))
        except OSError:
            pass  # a file stands where a directory should be


def _random_content(chance: random.Random, name: str) -> bytes:
    if name == ".gitignore":
        rules = ["*.log", "!keep.log", "/d/", "k/*", "!k/i.log", "*.o", "m", "d/**/h", "[ab]", "#c", "\\!x", "x/"]
    elif name == ".gitattributes":
        rules = ["*.svg binary", "*.c diff=cpp", "*.bin diff", "* -diff", "a ident", "[attr]q -diff", "*.txt q"]
    else:
        rules = ["x", "y", "z", "", "$Id$", "foo bar", "a\0b"] if chance.random() < 0.2 else ["x", "y", "z", ""]
    lines = [chance.choice(rules) for _ in range(chance.randrange(30 if rules[0] == "x" else 4))]
    return "\n".join(lines).encode() + b"\n" * chance.randrange(2)


@pytest.mark.deep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(60))
def test_the_numbers_of_any_repository_are_those_of_git(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    names = "a b.txt c.bin d/e.txt d/f.c d/g/h i.log k/i.log k/keep.log l/x.svg m/.gitignore m/n.o m/o .gitignore x".split()
    names += [
        ".gitattributes",
        "p q",
        "sé",
        ":(x)",
        "-dash",
        "l/.gitattributes",
        "new1",
        "d/new2.txt",
        "new/deep/x.log",
        ".loki/x",
    ]
    top = new_repository(tmp_path / "top", f"--object-format={chance.choice(['sha1', 'sha256'])}")
    _random_state(top, chance, names)
    base = commit_all(top)
    for turn in range(2):
        _random_state(top, chance, names)
        if turn == 0:
            git(top, "add", "-A")
            git(top, *chance.choice([("gc", "-q"), ("rm", "-q", "--cached", "--ignore-unmatch", "-f", "a", "d/e.txt")]))
    assert numbers(top, base) == asked_of_git(top, base)


# Nothing is run


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


# What cannot be told


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


# Hostile repositories


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


# The object store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A bare object store with one pack that has deltas, and the names of its objects."""
    top = new_repository(tmp_path_factory.mktemp("store") / "top")
    for turn in range(4):
        (top / "file").write_text(_lines(200, (turn,)))
        commit_all(top, str(turn))
    git(top, "gc", "-q", "--aggressive")
    listed = git(top, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").decode().split()
    assert b"chain length" in git(top, "verify-pack", "-v", str(next((top / ".git/objects/pack").glob("*.idx"))))
    return top / ".git", listed


def _read_all(directory: Path, oids: list[str]) -> dict[str, tuple[str, bytes]]:
    with Workspace.open(directory) as workspace, open_objects(workspace, ()) as objects:
        return {oid: objects.read(oid) for oid in oids}


def test_packed_objects_are_what_git_says(store: tuple[Path, list[str]]) -> None:
    directory, oids = store
    for oid, (kind, data) in _read_all(directory, oids).items():
        assert data == git(directory, "cat-file", kind, oid)


def test_a_chain_of_deltas_that_makes_too_much_is_not_worked_off(
    store: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, oids = store
    monkeypatch.setattr("fable_exec.proofbind.changes.objects._MAX_MADE_BYTES", 10)
    monkeypatch.setattr("fable_exec.proofbind.changes.objects._applied", None)
    refused = []
    for oid in oids:
        try:
            _read_all(directory, [oid])
        except CannotTell as reason:
            refused.append(reason.why)
    assert refused and {*refused} == {"too-large"} and len(refused) < len(oids)


@given(st.data())
def test_a_damaged_store_gives_the_right_object_or_none(store: tuple[Path, list[str]], data: st.DataObject) -> None:
    directory, oids = store
    suffix = data.draw(st.sampled_from(["idx", "pack"]))
    original = next((directory / "objects/pack").glob(f"*.{suffix}"))
    content = bytearray(original.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    whole = _read_all(directory, oids)
    kept = original.read_bytes()
    original.chmod(0o600)
    original.write_bytes(content)
    try:
        with Workspace.open(directory) as workspace, open_objects(workspace, ()) as objects:
            for oid in oids:
                try:
                    assert objects.read(oid) == whole[oid]
                except CannotTell as reason:
                    assert reason.why in ("objects-damaged", "object-missing", "too-large")
    finally:
        original.write_bytes(kept)


@given(st.binary(max_size=80), st.booleans())
def test_a_loose_file_of_any_bytes_is_no_object(tmp_path_factory: pytest.TempPathFactory, data: bytes, packed: bool) -> None:
    directory = tmp_path_factory.mktemp("loose")
    (directory / "objects/12").mkdir(parents=True)
    (directory / "objects/12" / ("3" * 38)).write_bytes(zlib.compress(data) if packed else data)
    with pytest.raises(CannotTell) as told:
        _read_all(directory, ["12" + "3" * 38])
    assert told.value.why in ("objects-damaged", "too-large")


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    (tmp_path / "objects/12").mkdir(parents=True)
    stored = tmp_path / "objects/12" / ("3" * 38)
    for head in (b"blob 5\0", b"blob 99999999999\0"):
        stored.write_bytes(zlib.compress(head + b"\0" * (8 << 20)))
        with pytest.raises(CannotTell) as told:
            _read_all(tmp_path, ["12" + "3" * 38])
        assert told.value.why in ("objects-damaged", "too-large")

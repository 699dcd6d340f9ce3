"""What a working tree changed since a commit: the numbers of git, from a git that never sees the tree."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from tests.proofbind.counted import numbers
from tests.proofbind.repositories import asked_of_git, commit_all, git, head_of, lines, new_repository

pytestmark = pytest.mark.requires_ability("git")


def _first_state(top: Path) -> None:
    for directory in ("d/e", "gone", "becomes", "rules", "stays"):
        (top / directory).mkdir(parents=True)
    for name, text in {
        "long": lines(400), "d/e/deep": lines(30), "gone/one": "1\n2\n", "gone/no-end": "1\n2", "mode": "m\n", "same": "s\n",
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
    (top / "long").write_text(lines(400, (3, 17, 18, 200, 399)) + "more\nwithout end")
    (top / "d/e/deep").write_text("before\n" + lines(25))
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

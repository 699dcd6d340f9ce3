"""File requests, asked of every door: what is written, read, edited, listed, moved and found."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fable_exec import Conflict, InvalidRequest, PathExists, PathIsDirectory, PathNotFound
from tests.anothers import workspace_of_another_user
from tests.doors import DOORS, opened, policy_for

SECRET_BYTES = bytes(range(256)) + "ä€😀".encode()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_what_is_written_is_read_back_to_the_byte(door: Any, workspace: Path) -> None:
    written = door.write_file("sub/dir/data.bin", SECRET_BYTES)
    assert (written.path, written.created, written.total_bytes) == ("sub/dir/data.bin", True, len(SECRET_BYTES))
    found = door.inspect_files("./sub//dir/data.bin")
    assert (found.data, found.path, found.truncated) == (SECRET_BYTES, "sub/dir/data.bin", False)
    assert found.content_hash == written.content_hash == sha256(SECRET_BYTES)
    assert (workspace / "sub/dir/data.bin").read_bytes() == SECRET_BYTES
    assert (workspace / "sub").stat().st_mode & 0o777 == 0o700


def test_a_read_is_cut_at_max_bytes_and_says_so(door: Any) -> None:
    door.write_file("a", "0123456789")
    found = door.inspect_files("a", 4)
    assert (found.data, found.truncated, found.total_bytes, found.content_hash) == (b"0123", True, 10, sha256(b"0123"))
    assert door.inspect_files("a", 10).truncated is False
    assert door.inspect_files("a", 10**9).data == b"0123456789"
    with pytest.raises(InvalidRequest):
        door.inspect_files("a", 0)


def test_a_write_under_a_hash_is_refused_when_the_file_has_changed(door: Any, workspace: Path) -> None:
    first = door.write_file("a", "one").content_hash
    second = door.write_file("a", "two", expected_hash=first).content_hash
    for refused in (
        lambda: door.write_file("a", "three", expected_hash=first),
        lambda: door.append("a", "three", expected_hash=first),
        lambda: door.edit_file("a", "two", "three", expected_hash=first),
    ):
        with pytest.raises(Conflict):
            refused()
    assert (workspace / "a").read_text() == "two"
    assert door.append("a", "!", expected_hash=second).total_bytes == 4
    assert (workspace / "a").read_text() == "two!"


def test_an_edit_needs_exactly_one_place(door: Any, workspace: Path) -> None:
    for content, old in (("abc", "x"), ("abab", "ab"), ("aaa", "aa")):
        door.write_file("a", content)
        with pytest.raises(Conflict):
            door.edit_file("a", old, "new")
        assert (workspace / "a").read_text() == content


NEAR_MISSES = {
    "line ends of Windows": (b"one\r\ntwo\r\n", "one\ntwo", "line ends"),
    "line ends of Windows in the request": (b"one\ntwo\n", "one\r\ntwo", "line ends"),
    "tabs": (b"\tdef f():\n\t\tpass\n", "    def f():\n        pass", "white space"),
    "an empty line": (b"a\n\nb\n", "a\nb", "white space"),
    "a no-break space": ("a\u00a0b".encode(), "a b", "look alike"),
    "typographic quotes": ("say \u201chi\u201d".encode(), 'say "hi"', "look alike"),
    "decomposed": ("cafe\u0301".encode(), "caf\u00e9", "look alike"),
    "UTF-16": ("text".encode("utf-16"), "text", "UTF-16"),
    "Latin-1": (b"caf\xe9", "caf\u00e9", "not UTF-8"),
    "nothing like it": (b"abc", "x", "is not there"),
    "nothing like it, and the request is no text": (b"abc", b"\xff", "is not there"),
}


@pytest.mark.parametrize("case", NEAR_MISSES)
def test_an_edit_that_finds_no_place_says_what_differs_and_changes_nothing(door: Any, workspace: Path, case: str) -> None:
    content, old, told = NEAR_MISSES[case]
    (workspace / "a").write_bytes(content)
    (workspace / "a").chmod(0o600)
    with pytest.raises(Conflict) as caught:
        door.edit_file("a", old, "new")
    assert told in str(caught.value) and caught.value.reason == "absent"
    assert str(caught.value).endswith("is not there; read it again") == case.startswith("nothing")
    assert (workspace / "a").read_bytes() == content


LOOKALIKES = {
    "a narrow no-break space, as in screenshots of macOS": ("shot 1\u202fPM.png", "shot 1 PM.png"),
    "a no-break space": ("v\u00a013.png", "v 13.png"),
    "decomposed": ("cafe\u0301", "caf\u00e9"),
    "a curly quote": ("d\u2019e", "d'e"),
    "other case": ("Readme.MD", "README.md"),
    "a directory on the way": ("A b/file", "a\u00a0b/file"),
}


@pytest.mark.parametrize("case", LOOKALIKES)
def test_a_name_that_is_not_there_is_told_with_the_one_that_looks_alike_which_is_not_taken(
    door: Any, workspace: Path, case: str
) -> None:
    there, asked = LOOKALIKES[case]
    (workspace / there).parent.mkdir(exist_ok=True)
    (workspace / there).write_text("text")
    (workspace / there).chmod(0o600)
    if (workspace / asked).exists():
        pytest.skip("this file system takes the names for one")
    for act in (door.inspect_files, door.stat_path, door.remove_path):
        with pytest.raises(PathNotFound) as caught:
            act(asked)
        assert caught.value.path == asked and f"{there!a} is there, which looks alike" in str(caught.value)
    with pytest.raises(PathNotFound, match="nothing has that name") as caught:
        door.inspect_files("nothing like it")
    assert "alike" not in str(caught.value)


def test_of_two_names_that_look_alike_none_is_told(door: Any, workspace: Path) -> None:
    for name in ("a\u00a0b", "a\u202fb"):
        (workspace / name).write_text("")
    with pytest.raises(PathNotFound) as caught:
        door.inspect_files("a b")
    assert "alike" not in str(caught.value)


def test_an_edit_keeps_every_line_end_and_byte_that_it_does_not_name(door: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo\nthree\rfour \xff\0\r\n")
    (workspace / "a").chmod(0o600)
    door.edit_file("a", "three", "3")
    assert (workspace / "a").read_bytes() == b"\xef\xbb\xbfone\r\ntwo\n3\rfour \xff\0\r\n"


def test_an_edit_replaces_the_place_and_keeps_the_mode(door: Any, workspace: Path) -> None:
    door.write_file("run.sh", "echo old\n")
    (workspace / "run.sh").chmod(0o750)
    edited = door.edit_file("run.sh", "old", "new")
    assert (workspace / "run.sh").read_text() == "echo new\n"
    assert edited.content_hash == sha256(b"echo new\n")
    assert (workspace / "run.sh").stat().st_mode & 0o777 == 0o750
    with pytest.raises(InvalidRequest):
        door.edit_file("run.sh", "", "x")


def test_names_are_listed_described_moved_and_removed(door: Any, workspace: Path) -> None:
    assert door.make_directory("d/e").created
    assert not door.make_directory("d/e").created
    assert door.append("d/log", "1").created
    assert door.append("d/log", "2").total_bytes == 2
    (workspace / "d/link").symlink_to("/etc/passwd")
    listed = door.list_directory("d")
    assert [(entry.name, entry.kind, entry.size_bytes) for entry in listed.entries] == [
        ("e", "directory", None),
        ("link", "symlink", None),
        ("log", "file", 2),
    ]
    assert door.list_directory("d", max_entries=1).truncated
    assert door.stat_path("d/link").kind == "symlink"
    with pytest.raises(PathExists):
        door.move_path("d/log", "d/e")
    moved = door.move_path("d/log", "d/renamed")
    assert (moved.source, moved.destination, moved.replaced) == ("d/log", "d/renamed", False)
    door.write_file("other", "x")
    assert door.move_path("other", "d/renamed", replace=True).replaced
    assert door.remove_path("d/link").removed == 1
    with pytest.raises(Exception, match="not empty"):
        door.remove_path("d")
    assert door.remove_path("d", recursive=True).removed == 3
    with pytest.raises(PathIsDirectory, match="workspace itself"):
        door.remove_path(".", recursive=True)
    assert list(workspace.iterdir()) == []


@pytest.mark.requires_ability("linux")
def test_a_name_that_is_not_utf8_is_shown_and_goes_with_its_directory_and_cannot_be_asked_for(door: Any, workspace: Path) -> None:
    (workspace / "d").mkdir()
    (workspace / "d" / "\udcff.txt").write_text("needle")
    (entry,) = door.list_directory("d").entries
    (match,) = door.search_files("needle").matches
    assert entry.name in ("\udcff.txt", "\ufffd.txt") and match.path == f"d/{entry.name}"
    with pytest.raises((InvalidRequest, PathNotFound)) as caught:
        door.inspect_files(match.path)
    assert "\ufffd" in match.path or "a command can rename" in str(caught.value)
    assert door.remove_path("d", recursive=True).removed == 2


def test_a_search_finds_lines_and_counts_what_it_left_out(door: Any, workspace: Path) -> None:
    door.write_file("a.py", "one\nNeedle here\nneedle\n")
    door.write_file("b.txt", "needle")
    door.write_file("c.bin", b"\0needle")
    found = door.search_files("needle")
    assert [(match.path, match.line, match.column, match.text) for match in found.matches] == [
        ("a.py", 3, 1, "needle"),
        ("b.txt", 1, 1, "needle"),
    ]
    assert (found.files_searched, found.files_skipped, found.truncated) == (2, 1, False)
    assert len(door.search_files("needle", name_pattern="*.py", ignore_case=True).matches) == 2
    for braces in ("*.{py,pyi}", "{*.{cc,py},none}", "{a,b.t}.p{y,z}"):
        matches = door.search_files("needle", name_pattern=braces, ignore_case=True).matches
        assert {each.path.rpartition(".")[2] for each in matches} == {"py"}
    for too_much in ("*.{" + ",".join(map(str, range(101))) + "}", "{a,b}" * 7, "x" * 1025):
        with pytest.raises(InvalidRequest, match="name_pattern"):
            door.search_files("needle", name_pattern=too_much)
    assert door.search_files("needle", max_matches=1).truncated
    for query, pattern in (("a\nneedle", None), ("\n", None), ("a\0b", None), ("needle", "src/*.py"), ("needle", "a\0")):
        with pytest.raises(InvalidRequest, match=r"never match|NUL"):
            door.search_files(query, name_pattern=pattern)
    with pytest.raises(PathNotFound):
        door.search_files("needle", "nowhere")


@pytest.fixture
def anothers() -> Iterator[Path]:
    with workspace_of_another_user() as workspace:
        yield workspace


@pytest.mark.requires_ability("root", "confinement")
@pytest.mark.parametrize("kind", sorted(DOORS))
def test_commands_of_a_broker_of_roots_can_use_what_it_wrote_in_another_users_workspace(kind: str, anothers: Path) -> None:
    """They run as the workspace's owner; the usual case is a container whose root works in a directory of the host's user."""
    using = "echo two >> log; cp log made; rm -r package; cat made/log; umask 077; echo mine > m"
    with opened(kind, policy_for(anothers, allowed_executables=("bash", "python3")), unlocked=True) as door:
        door.write_file("package/answer.py", "print(42)")
        door.append("log", "one\n")
        door.make_directory("made")
        assert door.execute_command(["python3", "package/answer.py"]).stdout == "42\n"
        result = door.execute_command(["bash", "-c", using])
        assert (result.stdout, result.stderr) == ("one\ntwo\n", "")
        assert door.inspect_files("m").data == b"mine\n"

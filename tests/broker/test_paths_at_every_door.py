"""Paths of requests, asked of every door: which are refused, and what the others mean."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fable_exec import PathDenied, PathIsDirectory, PathNotDirectory, PathNotFound

OUTSIDE = {
    "../outside": "dotdot",
    "a/../../outside": "dotdot",
    "/etc/passwd": "absolute",
    "..\\outside": "dotdot",
    "a\0b": "nul",
}


def test_a_path_out_of_the_workspace_is_refused_with_its_reason(door: Any, workspace: Path) -> None:
    for path, reason in OUTSIDE.items():
        for ask in (door.inspect_files, lambda path: door.write_file(path, "x"), door.stat_path):
            with pytest.raises(PathDenied) as caught:
                ask(path)
            assert (path, caught.value.reason) == (path, reason)
    assert not (workspace.parent / "outside").exists()


def test_links_lead_nowhere(door: Any, workspace: Path) -> None:
    outside = workspace.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (workspace / "link").symlink_to(outside)
    (workspace / "file").symlink_to(outside / "secret")
    for refused in (
        lambda: door.inspect_files("link/secret"),
        lambda: door.inspect_files("file"),
        lambda: door.write_file("link/secret", "x"),
        lambda: door.write_file("file", "x"),
        lambda: door.list_directory("link"),
        lambda: door.append("file", "x"),
    ):
        with pytest.raises(PathDenied) as caught:
            refused()
        assert caught.value.reason == "symlink"
    assert (outside / "secret").read_text() == "secret"


def test_files_that_others_could_have_written_are_not_read(door: Any, workspace: Path) -> None:
    os.mkfifo(workspace / "fifo")
    (workspace / "one").write_text("x")
    os.link(workspace / "one", workspace / "two")
    (workspace / "open").write_text("x")
    (workspace / "open").chmod(0o666)
    for name, reason in (("fifo", "not-regular"), ("one", "hard-link"), ("open", "writable-by-others")):
        with pytest.raises(PathDenied) as caught:
            door.inspect_files(name)
        assert caught.value.reason == reason


def test_a_backslash_separates_names(door: Any, workspace: Path) -> None:
    assert door.write_file("nested\\file", "x").path == "nested/file"
    assert door.inspect_files("nested\\file").path == "nested/file"
    assert (workspace / "nested/file").read_text() == "x"


def test_names_that_exist_are_used_and_only_portable_ones_are_created(door: Any, workspace: Path) -> None:
    (workspace / "aux.c").write_text("old")
    (workspace / "con").mkdir()
    assert door.inspect_files("aux.c").content == "old"
    assert door.write_file("aux.c", "new").created is False
    assert door.write_file("con/fine.txt", "x").created
    for refused in ("nul.txt", "con/prn", "new./x"):
        with pytest.raises(PathDenied):
            door.write_file(refused, "x")
    assert sorted(path.name for path in workspace.iterdir()) == ["aux.c", "con"]


def test_what_is_not_there_and_what_is_something_else_are_facts_with_their_builtin(door: Any) -> None:
    door.make_directory("d")
    door.write_file("f", "x")
    for kind, builtin, asked in (
        (PathNotFound, FileNotFoundError, lambda: door.inspect_files("nothing")),
        (PathIsDirectory, IsADirectoryError, lambda: door.inspect_files("d")),
        (PathNotDirectory, NotADirectoryError, lambda: door.inspect_files("f/x")),
        (PathNotDirectory, NotADirectoryError, lambda: door.list_directory("f")),
        (PathIsDirectory, IsADirectoryError, lambda: door.write_file("d", "x")),
    ):
        with pytest.raises(kind) as caught:
            asked()
        assert isinstance(caught.value, builtin)


def test_an_absolute_path_below_the_workspace_is_refused_with_the_one_to_use(door: Any, workspace: Path) -> None:
    (workspace / "a").mkdir()
    for asked, advised in ((f"{workspace}/a/f", "'a/f'"), (f"{workspace}//a", "'a'"), (f"{workspace}/", "'.'")):
        for act in (door.inspect_files, door.make_directory):
            with pytest.raises(PathDenied) as caught:
                act(asked)
            assert caught.value.reason == "absolute" and str(caught.value).endswith(f"use {advised} if that is what is meant")
    with pytest.raises(PathDenied) as caught:
        door.inspect_files(f"{workspace}-beside/a")
    assert str(caught.value).endswith("name the file relative to the workspace")

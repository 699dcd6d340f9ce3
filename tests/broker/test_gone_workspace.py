"""A workspace that goes away under its broker is said to be gone; it does not look empty."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fable_exec import PathNotFound
from fable_exec.errors import FableExecError
from fable_exec.pathguard import Workspace, WorkspacePath, trees
from fable_exec.pathguard.directories import HeldDirectory

ASK: dict[str, Callable[[Any], object]] = {
    "list": lambda door: door.list_directory(),
    "search": lambda door: door.search_files("text"),
    "stat": lambda door: door.stat_path("."),
    "read": lambda door: door.inspect_files("file"),
    "write": lambda door: door.write_file("file", "text"),
    "make": lambda door: door.make_directory("a/b"),
    "move": lambda door: door.move_path("a", "b"),
    "remove": lambda door: door.remove_path("a"),
}


@pytest.mark.parametrize("replaced", [False, True], ids=["removed", "replaced"])
def test_every_request_for_files_says_that_the_workspace_is_gone(door: Any, workspace: Path, replaced: bool) -> None:
    workspace.rmdir()
    if replaced:
        workspace.mkdir()
        (workspace / "file").write_text("text")
    for ask in ASK.values():
        with pytest.raises(PathNotFound, match="workspace-gone"):
            ask(door)
    with pytest.raises(FableExecError):
        door.execute_command(["true"])
    if replaced:
        assert [each.name for each in workspace.iterdir()] == ["file"]


def test_a_workspace_that_was_renamed_is_still_the_workspace(door: Any, workspace: Path, tmp_path: Path) -> None:
    (workspace / "file").write_text("text")
    workspace.rename(tmp_path / "elsewhere")
    assert [entry.name for entry in door.list_directory().entries] == ["file"]


def test_a_directory_that_goes_while_it_is_listed_is_not_taken_for_empty(workspace: Path) -> None:
    (workspace / "below").mkdir()
    with Workspace.open(str(workspace)) as opened:
        descriptor = opened.open_directory(WorkspacePath(components=("below",)))
        directory = HeldDirectory(descriptor)
        assert trees.list_directory(directory, 10).entries == ()
        (workspace / "below").rmdir()
        with pytest.raises(FileNotFoundError):
            trees.list_directory(directory, 10)
        directory.close()

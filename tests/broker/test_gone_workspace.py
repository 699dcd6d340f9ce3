"""A workspace that goes away under its broker is said to be gone; it does not look empty."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fable_exec import Confinement, PathNotFound
from fable_exec.errors import FableExecError
from fable_exec.pathguard import Workspace, WorkspacePath, trees
from fable_exec.pathguard.directories import HeldDirectory
from tests.confinement.places import in_modes
from tests.doors import opened, policy_for

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


@pytest.mark.parametrize("replaced", [False, True], ids=["renamed", "replaced"])
@in_modes("slots", "plain")
@pytest.mark.parametrize("confinement", ["strict", "off"])
@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
def test_commands_are_told_that_the_workspace_was_renamed_until_it_is_back_and_files_go_on(
    workspace: Path, tmp_path: Path, mode: Any, confinement: Any, replaced: bool, used: bool
) -> None:
    (workspace / "file").write_text("text")
    (workspace / "file").chmod(0o600)
    (workspace / "sub").mkdir()
    policy = policy_for(workspace, launch=mode, confinement=Confinement.named(confinement))
    with opened("in_process", policy, unlocked=True) as door:
        if used:
            assert door.execute_command(["true"]).success
        workspace.rename(tmp_path / "elsewhere")
        if replaced:
            workspace.mkdir()
        for cwd in (".", "sub"):
            with pytest.raises(PathNotFound) as caught:
                door.execute_command(["true"], cwd)
            assert caught.value.reason == "workspace-moved"
            assert "rename it back" in str(caught.value)
        door.write_file("new", "text")
        assert sorted(each.name for each in (tmp_path / "elsewhere").iterdir()) == ["file", "new", "sub"]
        if replaced:
            workspace.rmdir()
        (tmp_path / "elsewhere").rename(workspace)
        assert door.inspect_files("file").content == "text"
        assert door.execute_command(["true"], "sub").success


@pytest.mark.requires_ability("confinement")
def test_every_door_goes_on_with_files_of_a_renamed_workspace_and_keeps_what_runs(
    door: Any, workspace: Path, tmp_path: Path
) -> None:
    (workspace / "file").write_text("text")
    name = door.start_background(["cat"], keep_stdin_open=True).handle
    workspace.rename(tmp_path / "elsewhere")
    for ask in ("list", "search", "stat", "read", "write", "make", "move"):
        ASK[ask](door)
    assert not workspace.exists() and (tmp_path / "elsewhere/file").read_text() == "text"
    with pytest.raises(PathNotFound, match="workspace-moved"):
        door.execute_command(["true"])
    door.write_stdin(name, "said\n", close=True)
    while (read := door.read_command(name, 10.0)).running:
        pass
    assert read.result.stdout == "said\n"
    assert door.list_commands().commands and door.probe().workspace == str(workspace)


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

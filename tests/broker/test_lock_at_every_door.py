"""The write lock, asked of every door: in this process, under asyncio, and of a broker in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fable_exec import Confinement, Denied, InvalidRequest, WritesLocked
from tests.doors import DOORS, TOKEN, opened, policy_for


def test_a_broker_starts_locked_and_says_so(locked_door: Any, workspace: Path) -> None:
    found = locked_door.probe()
    assert found.host == "fable-execution-broker"
    assert found.capabilities[:4] == ("execute_command", "inspect_files", "probe_capabilities", "write_file")
    assert (found.writes_enabled, found.workspace) == (False, str(workspace))
    assert found.available_executables == ("bash", "cat", "echo", "false", "python3", "sleep", "true")
    assert found.unresolved_executables == ()
    assert "whole_tree_end" in [applied.protection for applied in found.confinement]


WRITES: dict[str, tuple[str, ...]] = {
    "write_file": ("new.txt", "x"),
    "append": ("there.txt", "x"),
    "edit_file": ("there.txt", "old", "new"),
    "make_directory": ("new",),
    "move_path": ("there.txt", "new.txt"),
    "remove_path": ("there.txt",),
}


def test_while_locked_no_write_request_changes_anything(locked_door: Any, workspace: Path) -> None:
    (workspace / "there.txt").write_text("old")
    for call, arguments in WRITES.items():
        with pytest.raises(WritesLocked, match="workspace writes are locked"):
            getattr(locked_door, call)(*arguments)
        assert ([path.name for path in workspace.iterdir()], call) == (["there.txt"], call)
        assert ((workspace / "there.txt").read_text(), call) == ("old", call)


WRITERS = (["python3", "-c", "open('new', 'w')"], ["bash", "-c", "echo > new"])


@pytest.mark.requires_ability("confinement")
def test_while_locked_every_command_runs_and_none_can_write_the_workspace(locked_door: Any, workspace: Path) -> None:
    for command in WRITERS:
        result = locked_door.execute_command(command)
        assert (result.success, "Read-only file system" in result.stderr) == (False, True)
    assert locked_door.execute_command(["python3", "-c", "print(6 * 7)"]).stdout == "42\n"
    assert list(workspace.iterdir()) == []


UNHELD = {"confinement off": {"confinement": Confinement.off()}, "denied by choice": {"locked_commands": "deny"}}


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("more", UNHELD.values(), ids=UNHELD)
@pytest.mark.parametrize("kind", sorted(DOORS))
def test_where_the_kernel_does_not_hold_the_lock_only_known_readers_run(kind: str, more: Any, workspace: Path) -> None:
    (workspace / "there.txt").write_text("old")
    programs = ("bash", "cat", "cp", "env", "python3", "find")
    with opened(kind, policy_for(workspace, allowed_executables=programs, **more)) as door:
        for refused in (
            *WRITERS,
            ["cp", "there.txt", "new"],
            ["env", "cp", "there.txt", "new"],
            ["env", "cat", "there.txt"],
            ["find", ".", "-exec", "cp", "{}", "new", ";"],
            ["find", ".", "-fprint", "new"],
        ):
            with pytest.raises(WritesLocked, match="workspace writes are locked"):
                door.execute_command(refused)
        assert door.execute_command(["cat", "there.txt"]).stdout == "old"
        assert door.execute_command(["find", "."]).success
        door.unlock_writes(TOKEN)
        assert door.execute_command(["cp", "there.txt", "new"]).success
    assert sorted(path.name for path in workspace.iterdir()) == ["new", "there.txt"]


def test_only_the_right_token_unlocks_and_locking_locks_again(locked_door: Any) -> None:
    with pytest.raises(Denied, match="invalid write authorization"):
        locked_door.unlock_writes("wrong")
    with pytest.raises(WritesLocked):
        locked_door.unlock_writes("")
    assert not locked_door.probe().writes_enabled
    locked_door.unlock_writes(TOKEN)
    assert locked_door.write_file("a", "1").created
    with pytest.raises(Denied):
        locked_door.unlock_writes("wrong")
    assert locked_door.probe().writes_enabled
    locked_door.lock_writes()
    with pytest.raises(WritesLocked):
        locked_door.write_file("a", "2")


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("token", [None, 5, b"bytes", [TOKEN]])
def test_a_token_that_is_no_text_is_refused_as_such(locked_door: Any, token: object) -> None:
    with pytest.raises(InvalidRequest, match="token"):
        locked_door.unlock_writes(token)


def test_an_unlock_for_some_paths_unlocks_no_others_and_no_command(locked_door: Any, workspace: Path) -> None:
    locked_door.unlock_writes(TOKEN, paths=["docs", "notes.txt"])
    assert locked_door.write_file("docs/a.md", "x").created
    assert locked_door.write_file("notes.txt", "x").created
    for refused in (
        lambda: locked_door.write_file("src/a.py", "x"),
        lambda: locked_door.move_path("docs/a.md", "a.md"),
    ):
        with pytest.raises(WritesLocked):
            refused()
    assert not locked_door.execute_command(["python3", "-c", "open('docs/a.md', 'w')"]).success
    assert not (workspace / "src").exists()
    assert (workspace / "docs/a.md").read_text() == "x"


def test_an_unlock_ends_when_its_time_is_over(locked_door: Any) -> None:
    locked_door.unlock_writes(TOKEN, expires_in_seconds=3600)
    assert locked_door.write_file("a", "x").created
    locked_door.unlock_writes(TOKEN, expires_in_seconds=1e-6)
    with pytest.raises(WritesLocked):
        locked_door.write_file("b", "x")


TOLD = ["python3", "-c", "import sys; exec(sys.stdin.read())"]


@pytest.mark.requires_ability("confinement")
def test_input_is_refused_when_writes_were_locked_meanwhile(door: Any, workspace: Path) -> None:
    with door.start_command(TOLD, keep_stdin_open=True) as started:
        door.lock_writes()
        with pytest.raises(WritesLocked):
            started.write_stdin("open('planted', 'w')")
    assert list(workspace.iterdir()) == []


@pytest.mark.requires_ability("confinement")
def test_a_command_that_was_started_while_locked_is_fed_and_stays_read_only(locked_door: Any, workspace: Path) -> None:
    with locked_door.start_command(TOLD, keep_stdin_open=True) as started:
        locked_door.unlock_writes(TOKEN)
        started.write_stdin("print(1); open('planted', 'w')")
        started.close_stdin()
        result = started.wait()
    assert (result.stdout, result.success) == ("1\n", False)
    assert list(workspace.iterdir()) == []

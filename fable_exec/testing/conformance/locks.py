"""What a broker must refuse while workspace writes are locked, and what unlocks them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fable_exec.errors import Denied, WritesLocked
from fable_exec.testing.conformance.setting import TOKEN, BrokerSetting, Desk

__all__ = ["LockChecks"]

_WRONG_TOKENS = (TOKEN[:-1], TOKEN.upper(), hashlib.sha256(TOKEN.encode()).hexdigest(), f"{TOKEN} ", "")
"""One fewer than what makes a broker pause before it looks at another."""


class LockChecks(BrokerSetting):
    """A broker starts locked, nothing is written then by request or by command, and only the token changes that."""

    def test_while_locked_no_request_and_no_command_writes(self, workspace: Path) -> None:
        (workspace / "there").write_text("old")
        (workspace / "there").chmod(0o600)
        with self.opened(workspace, unlocked=False) as broker:
            desk = self.desk_at(broker, workspace)
            assert not broker.probe().writes_enabled
            for name, write in _writes(broker).items():
                with pytest.raises(WritesLocked):
                    write()
                _require_unchanged(workspace, desk, name)
            for name, act in _COMMANDS.items():
                assert not _managed_to_write(desk, act), f"{name} wrote the workspace while it was locked"
            assert broker.inspect_files("there").data == b"old"
            assert desk.left() == []

    def test_only_the_token_unlocks_and_locking_locks_again(self, workspace: Path) -> None:
        with self.opened(workspace, unlocked=False) as broker:
            for wrong in _WRONG_TOKENS:
                with pytest.raises(Denied):
                    broker.unlock_writes(wrong)
                assert not broker.probe().writes_enabled, f"unlocked by {wrong!r}"
            broker.unlock_writes(TOKEN)
            assert broker.write_file("a", b"1").created
            with pytest.raises(Denied):
                broker.unlock_writes(_WRONG_TOKENS[0])
            assert broker.write_file("b", b"2").created, "a wrong token locked what the right one had unlocked"
            broker.lock_writes()
            with pytest.raises(WritesLocked):
                broker.write_file("c", b"3")
            assert sorted(each.name for each in workspace.iterdir()) == ["a", "b"]

    def test_an_unlock_for_some_paths_unlocks_no_others(self, workspace: Path) -> None:
        with self.opened(workspace, unlocked=False) as broker:
            broker.unlock_writes(TOKEN, paths=["docs"])
            assert broker.write_file("docs/a", b"1").created
            refusals: list[Callable[[], Any]] = [
                lambda: broker.write_file("src/a", b"1"),
                lambda: broker.write_file("docs2/a", b"1"),
                lambda: broker.move_path("docs/a", "a"),
                lambda: broker.make_directory("src"),
            ]
            for refused in refusals:
                with pytest.raises(WritesLocked):
                    refused()
            assert [each.name for each in workspace.iterdir()] == ["docs"]

    def test_an_unlock_for_some_time_ends_by_itself(self, workspace: Path) -> None:
        with self.opened(workspace, unlocked=False) as broker:
            broker.unlock_writes(TOKEN, expires_in_seconds=600)
            assert broker.write_file("a", b"1").created
            broker.unlock_writes(TOKEN, expires_in_seconds=0.01)
            time.sleep(0.02)
            assert not broker.probe().writes_enabled
            with pytest.raises(WritesLocked):
                broker.write_file("b", b"2")


def _writes(broker: Any) -> dict[str, Callable[[], Any]]:
    return {
        "write_file": lambda: broker.write_file("new", b"x"),
        "write_file over another": lambda: broker.write_file("there", b"x"),
        "append": lambda: broker.append("there", b"x"),
        "edit_file": lambda: broker.edit_file("there", b"old", b"new"),
        "make_directory": lambda: broker.make_directory("new"),
        "move_path": lambda: broker.move_path("there", "new"),
        "remove_path": lambda: broker.remove_path("there"),
    }


def _require_unchanged(workspace: Path, desk: Desk, what: str) -> None:
    assert sorted(each.name for each in workspace.iterdir()) == sorted([desk.name, "there"]), f"{what} changed the workspace"
    assert (workspace / "there").read_text() == "old", f"{what} changed a file"


def _run_to_its_end(broker: Any, argv: list[str]) -> None:
    broker.execute_command(argv)


def _start_and_wait(broker: Any, argv: list[str]) -> None:
    with broker.start_command(argv) as started:
        started.wait()


def _leave_in_the_background(broker: Any, argv: list[str]) -> None:
    handle = broker.start_background(argv).handle
    while broker.read_command(handle, 10.0).running:
        pass


_COMMANDS: dict[str, Callable[[Any, list[str]], None]] = {
    "execute_command": _run_to_its_end,
    "start_command": _start_and_wait,
    "start_background": _leave_in_the_background,
}


def _managed_to_write(desk: Desk, act: Callable[[Any, list[str]], None]) -> bool:
    """Where the kernel does not hold the lock a broker refuses the command; where it does the command fails."""
    try:
        act(desk.broker, desk.argv("open(ARGUMENTS[0], 'w').write('x')", str(desk.on_disk("planted"))))
    except Denied:
        pass
    return desk.on_disk("planted").exists()

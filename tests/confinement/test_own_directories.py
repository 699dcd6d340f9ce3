"""What all commands of a broker share, the home and the temporary directory, no command closes to those that follow."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fable_exec._launcher.removal import remove_tree
from tests.confinement.places import confined, in_modes, run
from tests.doors import TOKEN

_CLOSING = "chmod 000 $HOME $TMPDIR"
_CLOSING_ABOVE = "chmod 000 /dev/shm ..; chmod 000 /tmp"
_USING = "echo home >$HOME/file && echo temporary >$TMPDIR/file && cat $HOME/file $TMPDIR/file"


@pytest.fixture
def below_tmp() -> Iterator[Path]:
    """A workspace in the host's /tmp, two directories down: what lies above it is the launcher's own."""
    top = Path(tempfile.mkdtemp(dir="/tmp"))
    workspace = top / "workspace"
    workspace.mkdir()
    yield workspace
    remove_tree(str(top))


@in_modes()
def test_a_home_that_a_command_closed_is_open_for_the_next(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, unlocked=True) as broker:
        for _ in range(2):
            run(broker, "sh", "-c", _CLOSING)
            assert run(broker, "sh", "-c", _USING).stdout == "home\ntemporary\n"


@in_modes("slots", "namespace")
@pytest.mark.parametrize("closed_while_unlocked", [True, False])
def test_nor_does_it_close_a_workspace_below_the_temporary_directory(
    mode: str, closed_while_unlocked: bool, below_tmp: Path
) -> None:
    with confined(below_tmp, mode, unlocked=closed_while_unlocked) as broker:
        run(broker, "sh", "-c", f"{_CLOSING_ABOVE}; true")
        run(broker, "sh", "-c", "echo >/dev/shm/file; ls")
        run(broker, "sh", "-c", f"{_CLOSING_ABOVE}; true")
        if closed_while_unlocked:
            broker.lock_writes()
        else:
            broker.unlock_writes(TOKEN)
        assert run(broker, "sh", "-c", _USING).stdout == "home\ntemporary\n"  # the first of another launcher


@in_modes()
def test_what_commands_leave_open_to_others_is_theirs_and_stays(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, unlocked=True) as broker:
        run(broker, "sh", "-c", "chmod 711 $HOME; mkdir $HOME/own; chmod 000 $HOME/own")
        assert run(broker, "sh", "-c", "stat -c %a $HOME $HOME/own; chmod 700 $HOME/own").stdout == "711\n0\n"

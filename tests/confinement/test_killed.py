"""After kill -9 of the host nothing is left in the workspace or among the mounts, and what ran is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.confinement.places import NEEDS, Tree, left_on_the_host, repository
from tests.waiting import until

pytestmark = pytest.mark.requires_ability("linux", "git")

PROJECT = Path(__file__).resolve().parents[2]
HOST = """
import sys
from pathlib import Path
from tests.confinement.places import confined
with confined(Path(sys.argv[1]), sys.argv[2], unlocked=True) as broker:
    started = broker.start_command(("sh", "-c", "echo running; while :; do sleep 0.05; done"))
    _, commands, _ = broker.command_parts
    for event in started.events():
        print(commands.private(), flush=True)
"""


@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=pytest.mark.requires_ability(*needs)) for mode, needs in NEEDS.items()]
)
def test_no_stub_and_no_mount_is_left_after_kill_9(mode: str, workspace: Path) -> None:
    (workspace / ".envrc").write_text("kept\n")
    repository(workspace)
    before = Tree.of(workspace)
    argv = [sys.executable, "-c", HOST, str(workspace), mode]
    with subprocess.Popen(argv, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        private = Path(host.stdout.readline().strip())
        assert private.is_dir()
        host.kill()
    until(lambda: not private.exists())
    assert left_on_the_host([str(workspace), str(private)]) == []
    # The unlocked launcher's canary made and removed a file at the top: that directory's time is another one, and nothing else.
    assert [name for name in before.changes(Tree.of(workspace)) if name != "."] == []

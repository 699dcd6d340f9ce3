"""`fable-exec supervise`, typed by tests."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from fable_exec.cli.program import main
from fable_exec.supervisor import Supervisor
from tests.cli.typed import the_object, typed_here

__all__ = ["NOBODY", "ended", "shown", "start", "status_here", "supervise"]

NOBODY = "00000000-0000-4000-8000-000000000000"


def supervise(verb: str, root: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """One sub-command on `root`, to its end."""
    return typed_here("supervise", verb, "--root", str(root), *arguments, **options)


def status_here(verb: str, root: Path, *arguments: str) -> int:
    """The exit status of one that is typed into this process: that is quick."""
    return main(["supervise", verb, "--root", str(root), *arguments])


def start(root: Path, workspace: Path, script: str, *flags: str) -> dict[str, Any]:
    """A job for a shell; its state when `start` returned."""
    finished = supervise("start", root, "--workspace", str(workspace), "--json", *flags, "--", "sh", "-c", script)
    assert finished.returncode == 0, finished.stderr
    return the_object(finished)


def shown(root: Path, execution_id: str) -> dict[str, Any]:
    """Its state now."""
    return the_object(supervise("show", root, execution_id, "--json"))


def ended(root: Path, execution_id: str) -> dict[str, Any]:
    """Its state once it has ended."""
    with Supervisor(root) as supervisor:
        return supervisor.wait(execution_id, 20).to_members()

"""How long each run is, in its quick form and as a whole, and how it is put into its box."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.boxes import run_in_pid_box
from tests.supervision_runs.blows import TARGETS

__all__ = ["QUICK", "WHOLE", "answer_of"]

_PROJECT = Path(__file__).resolve().parents[2]
# As in tests/procident: a user namespace of its own gives the power to choose the next process number, and to mount.
_POWERS = ("unshare", "--user", "--map-current-user", "--keep-caps", "--pid", "--fork", "--kill-child", "--mount-proc")
_NOT_FIRST = ("sh", "-c", '"$@"; exit "$?"', "sh")

QUICK: Mapping[str, dict[str, Any]] = {
    "storm": {"starts": 400, "processes": 4, "ids": 12, "workspaces": 6},
    "crashes": {"per_moment": 0, "random_moments": 14, "workers": 3},
    "reuse": {"rounds": 6},
}
WHOLE: Mapping[str, dict[str, Any]] = {
    "storm": {"starts": 10_000, "processes": 16, "ids": 200, "workspaces": 100},
    "crashes": {"per_moment": len(TARGETS), "random_moments": 300, "workers": 3},
    "reuse": {"rounds": 500},
}


def answer_of(
    name: str,
    directory: Path,
    *,
    timeout: float = 60,
    max_pids: int = 800,
    powers: bool = False,
    into: Sequence[str] = (),
    **arguments: Any,
) -> Any:
    """What the run `name` of `inside` answers, in a box; with `powers` over its own namespaces, and `into` others if need be."""
    way = [*(_POWERS if powers else ()), *_NOT_FIRST, *into]
    words = json.dumps({"directory": str(directory), **arguments})
    argv = [*way, sys.executable, "-m", "tests.supervision_runs.inside", name, words]
    finished = run_in_pid_box(argv, timeout, max_pids, directory, env={**os.environ, "PYTHONPATH": str(_PROJECT)})
    assert finished.returncode == 0, finished.stderr or f"it ended with {finished.returncode}"
    return json.loads(finished.stdout)

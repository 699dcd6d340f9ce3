"""`inside`: a run of this room in a box, where nothing of it can outlive it."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.boxes import Finished
from tests.supervision_runs.jobs import NEEDS, RUNGS

PROJECT = Path(__file__).resolve().parents[2]

# As in tests/procident: a user namespace of its own gives the power to choose the next process number, and to mount.
POWERS = ("unshare", "--user", "--map-current-user", "--keep-caps", "--pid", "--fork", "--kill-child", "--mount-proc")
NOT_FIRST = ("sh", "-c", '"$@"; exit "$?"', "sh")


@pytest.fixture(params=[pytest.param(rung, marks=pytest.mark.requires_ability(*NEEDS[rung])) for rung in RUNGS])
def rung(request: pytest.FixtureRequest) -> str:
    """Each rung in turn."""
    found: str = request.param
    return found


@pytest.fixture
def seed() -> int:
    """One that pytest prints where the test fails, as all values are; FABLE_EXEC_SEED repeats it."""
    found = int(os.environ.get("FABLE_EXEC_SEED") or random.SystemRandom().getrandbits(32))
    print(f"FABLE_EXEC_SEED={found}")
    return found


@pytest.fixture
def inside(pid_box: Callable[..., Finished], tmp_path: Path) -> Callable[..., Any]:
    """`inside(name, timeout=, max_pids=, powers=False, into=(), **arguments)`: what the run answers."""

    def run(
        name: str, *, timeout: float = 60, max_pids: int = 800, powers: bool = False, into: Sequence[str] = (), **arguments: Any
    ) -> Any:
        way = [*(POWERS if powers else ()), *NOT_FIRST, *into]
        words = json.dumps({"directory": str(tmp_path), **arguments})
        argv = [*way, sys.executable, "-m", "tests.supervision_runs.inside", name, words]
        finished = pid_box(argv, timeout=timeout, max_pids=max_pids, env={**os.environ, "PYTHONPATH": str(PROJECT)})
        assert finished.returncode == 0, finished.stderr
        return json.loads(finished.stdout)

    return run

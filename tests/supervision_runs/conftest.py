"""`inside`: a run of this room in a box, where nothing of it can outlive it."""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.supervision_runs.jobs import NEEDS, RUNGS
from tests.supervision_runs.running import answer_of


@pytest.fixture(params=[pytest.param(rung, marks=pytest.mark.requires_ability(*NEEDS[rung])) for rung in RUNGS])
def rung(request: pytest.FixtureRequest) -> str:
    """Each rung in turn."""
    found: str = request.param
    return found


@pytest.fixture
def seed() -> int:
    """A new one each time, which is printed with a failure; FABLE_EXEC_SEED repeats it."""
    found = int(os.environ.get("FABLE_EXEC_SEED") or random.SystemRandom().getrandbits(32))
    print(f"FABLE_EXEC_SEED={found}")
    return found


@pytest.fixture
def inside(pid_box: object, tmp_path: Path) -> Callable[..., Any]:
    """`inside(name, **more)`: `running.answer_of` in a directory of the test's own."""
    return functools.partial(answer_of, directory=tmp_path)

"""`scene`: a supervisor and a workspace, once for each rung below control groups; one supervisor serves a file of tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fable_exec.supervisor import Supervisor
from tests.keeper.scenes import NEEDS, RUNGS, Scene, supervising


@pytest.fixture(scope="module")
def supervisor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    """One supervisor; starting its zygote is what takes time."""
    with supervising(tmp_path_factory.mktemp("executions")) as opened:
        yield opened


@pytest.fixture(params=[pytest.param(rung, marks=pytest.mark.requires_ability(*NEEDS[rung])) for rung in RUNGS])
def scene(request: pytest.FixtureRequest, supervisor: Supervisor, workspace: Path) -> Scene:
    """Each rung in turn."""
    return Scene(supervisor=supervisor, workspace=workspace, rung=request.param)

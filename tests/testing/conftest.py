"""One name for the workspaces of many brokers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def _one_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("conformance").resolve() / "place"


@pytest.fixture
def same_workspace(_one_place: Path) -> Iterator[Path]:
    """An empty workspace, of one name in all tests: what a broker verifies of a policy, by whose name too, it verifies once."""
    workspace = _one_place / "workspace"
    workspace.mkdir(mode=0o700, parents=True)
    yield workspace
    shutil.rmtree(_one_place)

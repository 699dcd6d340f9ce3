"""Workspaces of one name for the tests of this room, and where sandboxes make their directories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oneplace import empty_workspace


@pytest.fixture(scope="session")
def _base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("one-place")


@pytest.fixture
def workspace(_base: Path) -> Iterator[Path]:
    """An empty private directory, by a name that other tests have used."""
    with empty_workspace(_base) as workspace:
        yield workspace


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An empty directory in which sandboxes make theirs."""
    (tmp_path / "place").mkdir()
    return tmp_path / "place"

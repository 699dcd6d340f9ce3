"""A small repository with one commit, a copy for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.proofbind.repositories import commit_all, new_repository


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = new_repository(tmp_path_factory.mktemp("original") / "repository")
    (made / "d").mkdir()
    (made / "a").write_text("1\n2\n3\n")
    (made / "d/b").write_text("x\n")
    commit_all(made)
    return made


@pytest.fixture
def repository(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "repository"))

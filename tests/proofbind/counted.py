"""The numbers of a working tree, or why there are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fable_exec.pathguard import Workspace
from fable_exec.proofbind.changes import CannotTell, diff_stat

__all__ = ["numbers", "why_not"]


def numbers(repository: Path, base: str, **options: Any) -> dict[str, Any]:
    with Workspace.open(repository) as workspace:
        return diff_stat(workspace, base, **options).members()


def why_not(repository: Path, base: str, **options: Any) -> str:
    with pytest.raises(CannotTell) as told:
        numbers(repository, base, **options)
    assert told.value.detail
    return told.value.why

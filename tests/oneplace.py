"""Workspaces of one name for one test after the other: what a broker verifies of a policy and its workspace, it verifies once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["empty_workspace"]


@contextmanager
def empty_workspace(base: Path) -> Iterator[Path]:
    """An empty private directory (0700) that has the same name each time; what was made in it and beside it is put aside."""
    place = base.resolve() / "place"
    workspace = place / "workspace"
    workspace.mkdir(mode=0o700, parents=True)
    try:
        yield workspace
    finally:
        place.rename(place.with_name(f"used-{uuid.uuid4().hex[:12]}"))

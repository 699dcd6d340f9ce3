"""Directories that another user gets at, and workspaces of such a user's."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["USER", "reachable_directory", "workspace_of_another_user"]

USER, GROUP = 1234, 1235


@contextmanager
def reachable_directory() -> Iterator[Path]:
    """One that others may enter. Nobody else gets in below pytest's own for long: each pytest that begins closes it again."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o711)
        yield Path(place).resolve()


@contextmanager
def workspace_of_another_user(fill: Callable[[Path], object] = lambda place: None) -> Iterator[Path]:
    """For root: a private directory, as whose owner commands run; `fill` puts something into it beforehand."""
    with reachable_directory() as above:
        place = above / "workspace"
        place.mkdir(0o700)
        fill(place)
        subprocess.run(["chown", "-R", f"{USER}:{GROUP}", place], check=True)
        yield place

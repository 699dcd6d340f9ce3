"""A workspace that is another user's, for root: commands run there as that user."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["USER", "workspace_of_another_user"]

USER, GROUP = 1234, 1235


@contextmanager
def workspace_of_another_user(fill: Callable[[Path], object] = lambda place: None) -> Iterator[Path]:
    """A private directory in one of root's, which its owner may enter; `fill` puts something into it beforehand."""
    with tempfile.TemporaryDirectory() as above:
        os.chmod(above, 0o711)
        place = Path(above).resolve() / "workspace"
        place.mkdir(0o700)
        fill(place)
        subprocess.run(["chown", "-R", f"{USER}:{GROUP}", place], check=True)
        yield place

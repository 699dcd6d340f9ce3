"""A control group of one job's own, where one may be made: its kernel kills all of it at once, and says when it is empty.

cgroups(7), version 2: cgroup.kill since Linux 5.14; no controller is needed. A job that could write in the hierarchy might
leave its group, so an empty group is a proof only beside what else holds the job.
"""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

from fable_exec._launcher import kernel
from fable_exec._launcher.control_group import beside_own

__all__ = ["Leaf", "leaves_of", "make_leaf", "remove_forgotten"]

_PREFIX = "fable-exec-"
_PAUSE_SECONDS = 0.005
_FORGOTTEN_SECONDS = 60.0
"""A keeper puts its init into a new group within milliseconds."""


class Leaf:
    """The group, made and empty. `end` before it is let go."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def clone(self, flags: int) -> int:
        """As `kernel.clone`, into it. Raises OSError, also where something keeps the call from us."""
        directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return kernel.clone_into(flags, directory)
        finally:
            os.close(directory)

    def end(self, seconds: float) -> bool:
        """Kill everything in it and remove it; whether it became empty within that time."""
        give_up_at = time.monotonic() + seconds
        try:
            _write(self.path / "cgroup.kill", b"1")
            while self._is_populated() and time.monotonic() < give_up_at:
                select.select([], [], [], _PAUSE_SECONDS)
            is_empty = not self._is_populated()
            if is_empty:
                self.path.rmdir()
        except OSError:
            return False
        return is_empty

    def _is_populated(self) -> bool:
        return b"populated 0" not in (self.path / "cgroup.events").read_bytes()


def make_leaf(name: str) -> Leaf | None:
    """A new group beside our own; None where none may be made, or the kernel could not kill it."""
    parent = beside_own()
    if not parent:
        return None
    path = Path(parent, _PREFIX + name)
    try:
        path.mkdir()
    except OSError:
        return None
    if (path / "cgroup.kill").exists():
        return Leaf(path)
    path.rmdir()
    return None


def leaves_of(name: str) -> list[Leaf]:
    """The groups beside our own whose names begin so, as keepers that died have left them."""
    parent = beside_own()
    return [Leaf(path) for path in Path(parent).glob(f"{_PREFIX}{name}*")] if parent else []


def remove_forgotten() -> None:
    """Remove the groups that nobody is in any more: of keepers that were killed, and that nobody recovers."""
    for leaf in leaves_of(""):
        try:
            if time.time() - leaf.path.stat().st_ctime > _FORGOTTEN_SECONDS:
                leaf.path.rmdir()  # the kernel removes none that has a process
        except OSError:
            continue


def _write(path: Path, text: bytes) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(text)

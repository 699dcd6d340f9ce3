"""What is empty for root's commands stays so while a launcher lives: the host may put another file in the place of one that is
covered, as passwd(1) and visudo(8) do, and the kernel takes the mount away with the old one; or make one that was not there.

The base's covers reach every slot, and commands that run. Between the host's change and ours lies up to half a millisecond: who
reads all the time sees what is new. Another user's commands are refused by its modes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence

from . import mounts
from .linuxos import signal_new_names
from .readiness import Readiness
from .typed import Any

NEW_NAMES = signal.SIGIO
"""Comes when something was made where something is covered. The end of an inotify instance, which tells the same, takes the
kernel up to 24 ms, and the end of a job with it; and a user has 128 of them."""


class Covers:
    """For the process that staged a root, entered it, and is to `keep` when NEW_NAMES comes. `paths`: see `covered`."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        self._mounts = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._directories = [*map(_watched, sorted({os.path.dirname(path) for path in paths}))]
        self.keep()  # what was replaced after the root was staged told nobody

    def watch(self, ready: Readiness) -> None:
        """`keep` whenever a mount was taken away."""
        ready.watch(self._mounts, self.keep, urgent=True)  # it can always be read

    def keep(self) -> None:
        """Cover what is there and is not covered. What the kernel refuses is tried again at the next change."""
        for path in self._paths:
            try:
                mounts.cover(path)
            except OSError:
                continue


def covered(plan: Mapping[str, Any]) -> list[str]:
    """The paths of the steps "cover" of a plan whose user could read what is put in their place."""
    return [step[1] for step in plan["stage"] if step[0] == "cover"] if plan["user"] == 0 else []


def _watched(directory: str) -> int:
    """Held, the directory signals each new name; -1 where it does not: then only what is replaced is noticed."""
    try:
        place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return -1
    try:
        signal_new_names(place)
    except OSError:
        os.close(place)
        return -1
    return place

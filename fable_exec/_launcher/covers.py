"""What is empty for commands stays so while a launcher lives: the host may put another file in the place of one that is covered,
as passwd(1) and visudo(8) do, and the kernel takes the mount away with the old one; or make one that was not there.

The base's covers reach every slot, and commands that run. Between the host's change and ours lie some microseconds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from . import kernel_inotify, mounts
from .linuxos import O_PATH
from .readiness import Readiness
from .typed import Any

_NEW_NAMES = kernel_inotify.IN_CREATE | kernel_inotify.IN_MOVED_TO


class Covers:
    """For the process that staged a root, once it has entered it. `paths`: of its steps "cover"."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        self._mounts = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._names = _watched({os.path.dirname(path) for path in paths})

    def watch(self, ready: Readiness) -> None:
        """`keep` whenever a mount was taken away, or something came into being where something is covered."""
        ready.watch(self._mounts, self.keep, urgent=True)  # it can always be read
        if self._names >= 0:
            ready.watch(self._names, self._see_names)

    def keep(self) -> None:
        """Cover what is there and is not covered. What the kernel refuses is tried again at the next change."""
        for path in self._paths:
            try:
                mounts.cover(path)
            except OSError:
                continue

    def _see_names(self) -> None:
        for _ in kernel_inotify.read_events(self._names):
            pass
        self.keep()


def covered(stage: Sequence[Sequence[Any]]) -> list[str]:
    """The paths of the steps "cover" among these."""
    return [step[1] for step in stage if step[0] == "cover"]


def _watched(directories: set[str]) -> int:
    """An inotify instance for those that are there, -1 where none can be had: then only what is replaced is noticed."""
    try:
        instance = kernel_inotify.open_instance()
    except OSError:
        return -1
    for directory in directories:
        try:
            place = os.open(directory, O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            kernel_inotify.add_watch(instance, place, _NEW_NAMES)
        except OSError:
            continue
        finally:
            os.close(place)
    return instance

"""Know which directories changed since last asked, without looking at each: inotify where it is to be had, a full look else."""

from __future__ import annotations

import os
from collections.abc import Iterator

import attrs

from fable_exec._launcher import kernel_inotify as inotify
from fable_exec.laterfiles.scanning import Names

__all__ = ["Change", "TreeWatch"]

_MASK = inotify.IN_CREATE | inotify.IN_MOVED_TO | inotify.IN_CLOSE_WRITE | inotify.IN_ATTRIB


@attrs.frozen
class Change:
    """Something with this name appeared or changed in a watched directory. Both empty: anything may have changed."""

    directory: Names
    name: str
    is_directory: bool

    @property
    def everything(self) -> bool:
        """Whether events were lost, so that all has to be looked at."""
        return not self.name


_EVERYTHING = Change((), "", True)


class TreeWatch:
    """Watches directories as they are named; `reason` says why it cannot, when it cannot."""

    def __init__(self) -> None:
        self.reason = ""
        self._directories: dict[int, Names] = {}
        try:
            self._instance = inotify.open_instance()
        except OSError as error:
            self._instance = -1
            self.reason = f"no inotify: {error.strerror}"

    def add(self, components: Names, descriptor: int) -> None:
        """Watch the directory behind `descriptor`, which stays the caller's; under a new name the old one is forgotten."""
        if self.reason:
            return
        try:
            self._directories[inotify.add_watch(self._instance, descriptor, _MASK)] = components
        except OSError as error:
            # One unwatched directory is enough to miss something, so all of it becomes a full look.
            self.reason = f"no more inotify watches: {error.strerror}"

    def changes(self) -> Iterator[Change]:
        """What happened since the last call."""
        if self.reason:
            yield _EVERYTHING
            return
        for event in inotify.read_events(self._instance):
            if event.mask & inotify.IN_Q_OVERFLOW:
                yield _EVERYTHING
            elif event.mask & inotify.IN_IGNORED:
                self._directories.pop(event.watch, None)
            elif event.watch in self._directories and event.name:
                yield Change(self._directories[event.watch], event.name, bool(event.mask & inotify.IN_ISDIR))

    def close(self) -> None:
        """Stop watching. Idempotent."""
        if self._instance >= 0:
            os.close(self._instance)
            self._instance = -1
            self.reason = "closed"

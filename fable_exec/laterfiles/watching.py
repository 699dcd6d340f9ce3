"""Know which directories changed since last asked, without looking at each: inotify where it is to be had, a full look else."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

import attrs

from fable_exec._launcher import kernel_inotify as inotify
from fable_exec.laterfiles.names import Names

__all__ = ["Change", "TreeWatch"]

_APPEARED = inotify.IN_CREATE | inotify.IN_MOVED_TO
_MASK = _APPEARED | inotify.IN_CLOSE_WRITE | inotify.IN_ATTRIB
_GONE = inotify.IN_DELETE | inotify.IN_MOVED_FROM
_NO_MORE_WATCHES = (errno.ENOSPC, errno.ENOMEM, errno.EMFILE)


@attrs.frozen
class Change:
    """Something with this name in a watched directory is new (`appeared`), changed, or `gone`. No name: anything may be."""

    directory: Names
    name: str
    is_directory: bool
    appeared: bool = True
    gone: bool = False

    @property
    def everything(self) -> bool:
        """Whether events were lost, so that all has to be looked at."""
        return not self.name


_EVERYTHING = Change((), "", True)


class TreeWatch:
    """Watches directories as they are named; `reason` says why it cannot, when it cannot, or from the start why it shall not."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        self._directories: dict[int, Names] = {}
        self._numbers: dict[Names, int] = {}
        self.removed: list[Names] = []
        """Directories that went away since the list was last emptied, unless another has taken their name."""
        self._instance = -1
        if reason:
            return
        try:
            self._instance = inotify.open_instance()
        except OSError as error:
            self.reason = f"no inotify: {error.strerror}"

    def add(self, components: Names, descriptor: int, *, losses: bool = False) -> None:
        """Watch the directory behind `descriptor`, which stays the caller's; under a new name the old one is forgotten.

        Args:
            losses: tell what goes away, too.

        Raises:
            OSError: this directory cannot be watched. That there are no more watches is no error but `reason`.
        """
        if self.reason:
            return
        try:
            number = inotify.add_watch(self._instance, descriptor, _MASK | _GONE if losses else _MASK)
        except OSError as error:
            if error.errno not in _NO_MORE_WATCHES:
                raise
            # One unwatched directory is enough to miss something, so all of it becomes a full look.
            self.reason = f"no more inotify watches: {error.strerror}"
            self._release()
            return
        self._directories[number] = components
        self._numbers[components] = number

    def changes(self) -> Iterator[Change]:
        """What happened since the last call."""
        if self.reason:
            yield _EVERYTHING
            return
        for event in inotify.read_events(self._instance):
            if event.mask & inotify.IN_Q_OVERFLOW:
                yield _EVERYTHING
            elif event.mask & inotify.IN_IGNORED:
                self._forget(event.watch)
            elif event.watch in self._directories and event.name:
                yield Change(
                    self._directories[event.watch],
                    event.name,
                    bool(event.mask & inotify.IN_ISDIR),
                    bool(event.mask & _APPEARED),
                    bool(event.mask & _GONE),
                )

    def _forget(self, number: int) -> None:
        components = self._directories.pop(number, None)
        if components is not None and self._numbers.get(components) == number:
            del self._numbers[components]
            self.removed.append(components)

    def close(self) -> None:
        """Stop watching. Idempotent."""
        self.reason = self.reason or "closed"
        self._release()

    def _release(self) -> None:
        """Watches are counted by user: those that no longer serve must not be missing elsewhere."""
        if self._instance >= 0:
            os.close(self._instance)
            self._instance = -1
        self._directories.clear()
        self._numbers.clear()

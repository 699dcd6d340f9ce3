"""Whether a tree still is what was read of it: everything noted while reading, and looked at again afterwards.

A digest is of one moment if nothing changed between the reading of each thing and one look at all of them, since then every thing
was at the beginning of that look what was read of it. Changes are seen by ctime, which a kernel with a coarse clock may leave
as it is when a file is changed twice within one tick. So what was changed just before it was read is read again after the tick.
"""

from __future__ import annotations

import os
import struct
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

import attrs

from fable_exec.errors import FableExecError
from fable_exec.pathguard import Workspace, WorkspacePath
from fable_exec.pathguard.directories import HeldDirectory
from fable_exec.treedigest.reading import Moving

__all__ = [
    "NO_STATUS",
    "STAMP_NUMBERS",
    "RowOf",
    "Seen",
    "Stamp",
    "Watch",
    "could_hide_a_change",
    "could_hide_a_name",
    "stamp_of",
    "stamps_of",
    "statuses_now",
]

Stamp = tuple[int, int, int, int]
STAMP_NUMBERS = 4
NO_STATUS = os.stat_result((0,) * 10, {"st_ctime_ns": 0, "st_mtime_ns": 0})
"""Of what this user may not even look at."""
RowOf = Callable[[HeldDirectory, str], str]
"""Reads a name in the held directory again; raises Moving or OSError."""

TICK_NS = 20_000_000
"""More than two ticks of the slowest clock that Linux keeps time stamps by (100 Hz)."""
COARSE_TICK_NS = 2_100_000_000
"""File systems that keep whole seconds, or every second one (FAT, some shares)."""
_SECOND_NS = 1_000_000_000
_HALF = 1 << 63
_pack = struct.Struct(f"{STAMP_NUMBERS}q").pack


stamp_of: Callable[[os.stat_result], Stamp] = attrgetter("st_ctime_ns", "st_mtime_ns", "st_ino", "st_size")
"""What tells one state of a file from another. The kernel moves ctime with every change, and nobody can set it."""


def stamps_of(statuses: Sequence[os.stat_result]) -> array[int]:
    """All their stamps, one after the other: compared at once, and nothing for the garbage collector to look through."""
    try:
        packed = [_pack(*stamp_of(status)) for status in statuses]  # array() would take numbers one by one
    except struct.error:  # an inode number of 64 bits
        packed = [_pack(*[(number + _HALF) % (2 * _HALF) - _HALF for number in stamp_of(status)]) for status in statuses]
    return array("q", b"".join(packed))


def could_hide_a_change(changed_ns: int, read_ns: int) -> bool:
    """Whether a file could have been changed after it was read, at or after `read_ns`, and still have the ctime `changed_ns`."""
    return changed_ns >= read_ns - _tick_of(changed_ns)


def could_hide_a_name(changed_ns: int, read_ns: int) -> bool:
    """The same of a directory and the names in it. 0 is no time at all: the top of a FAT file system never gets another."""
    return changed_ns == 0 or could_hide_a_change(changed_ns, read_ns)


def _tick_of(changed_ns: int) -> int:
    return TICK_NS if changed_ns % _SECOND_NS else COARSE_TICK_NS


@attrs.define
class Seen:
    """A directory as it was: its own stamp, all names in it sorted, and of what is no directory the names, stamps and rows."""

    components: tuple[str, ...]
    stamp: Stamp
    names: list[str]
    leaves: list[str]
    stamps: array[int]
    rows: list[str]
    row_of: RowOf

    def all_changed_ns(self) -> list[int]:
        """The ctime of everything."""
        return [self.stamp[0], *self.stamps[::STAMP_NUMBERS]]


@attrs.define
class Watch:
    """What was read of a tree since it was begun.

    Args:
        began_ns: the wall clock before the first thing was read.
    """

    workspace: Workspace
    began_ns: int = attrs.field(factory=time.time_ns)
    _directories: list[Seen] = attrs.field(factory=list)
    _answers: list[tuple[str, Callable[[], object], object]] = attrs.field(factory=list)

    def note_directory(self, seen: Seen) -> None:
        """A directory that was listed, and what was read in it."""
        self._directories.append(seen)

    def note_answer(self, path: str, ask: Callable[[], object], answer: object) -> None:
        """Something that can only be asked again as a whole, and has to be answered alike."""
        self._answers.append((path, ask, answer))

    def changes(self) -> list[str]:
        """The paths that are not what they were, as many as one directory shows; none if all of it stood at one moment.

        Waits at most two seconds, or 20 ms where time stamps are finer than seconds.
        """
        hiding = [seen for seen in self._directories if self._hides(seen)]
        if hiding or self._answers:
            self._wait(hiding)
            if found := self._differ(hiding, read=True) or self._other_answers():
                return found
        return self._differ(self._directories, read=False) or self._other_answers()

    def _hides(self, seen: Seen) -> bool:
        changes = seen.all_changed_ns()
        if could_hide_a_name(seen.stamp[0], self.began_ns):
            return True
        if max(changes) < self.began_ns - COARSE_TICK_NS:
            return False
        return any(could_hide_a_change(changed_ns, self.began_ns) for changed_ns in changes)

    def _wait(self, hiding: Iterable[Seen]) -> None:
        """Until no change could hide behind a stamp that was seen; a stamp from the future hides none."""
        now = time.time_ns()
        changes = [changed_ns for seen in hiding for changed_ns in seen.all_changed_ns()]
        ends = [changed_ns + _tick_of(changed_ns) for changed_ns in changes if changed_ns <= now + TICK_NS]
        time.sleep(max(0, max(ends, default=now) - now) / _SECOND_NS)

    def _differ(self, directories: Iterable[Seen], *, read: bool) -> list[str]:
        """Look at the directories again; with `read` list them and read again what could hide a change."""
        for seen in directories:
            try:
                fd = self.workspace.open_directory(WorkspacePath(components=seen.components))
            except FableExecError:
                return ["/".join(seen.components)]
            try:
                found = self._differ_in(seen, fd, read)
            finally:
                os.close(fd)
            if found:
                return ["/".join((*seen.components, name)).rstrip("/") for name in found]
        return []

    def _differ_in(self, seen: Seen, fd: int, read: bool) -> list[str]:
        """The names of what is not as it was; "" for the directory itself."""
        if stamp_of(os.fstat(fd)) != seen.stamp or (read and sorted(os.listdir(fd)) != seen.names):
            return [""]
        statuses = statuses_now(fd, seen.leaves)
        if statuses is None:
            return [""]
        now = stamps_of(statuses)
        if now != seen.stamps:
            return [name for number, name in enumerate(seen.leaves) if _one(now, number) != _one(seen.stamps, number)]
        if not read:
            return []
        directory = HeldDirectory(fd)
        return [
            name
            for number, name in enumerate(seen.leaves)
            if could_hide_a_change(now[number * STAMP_NUMBERS], self.began_ns)
            and not _reads_alike(directory, name, seen.rows[number], seen.row_of)
        ]

    def _other_answers(self) -> list[str]:
        return [path for path, ask, answer in self._answers if not _answers_alike(ask, answer)]


def _one(stamps: array[int], number: int) -> array[int]:
    return stamps[number * STAMP_NUMBERS : (number + 1) * STAMP_NUMBERS]


def statuses_now(fd: int, names: list[str]) -> list[os.stat_result] | None:
    """None when one of them is gone."""
    try:
        return [os.stat(name, dir_fd=fd, follow_symlinks=False) for name in names]
    except PermissionError:  # a directory that can be listed and not searched
        return [NO_STATUS] * len(names)
    except OSError:
        return None


def _reads_alike(directory: HeldDirectory, name: str, row: str, row_of: RowOf) -> bool:
    try:
        return row_of(directory, name) == row
    except (Moving, OSError):
        return False


def _answers_alike(ask: Callable[[], object], answer: object) -> bool:
    try:
        return ask() == answer
    except FableExecError:
        return False

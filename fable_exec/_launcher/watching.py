"""Look at a whole tree of processes for the watchdog: memory, processes and processor time, summed. It ends nothing itself.

One read of /proc/PID/stat for each process gives an upper bound; the exact figures for memory are read only when that bound is
over the limit, the dearer ones only when the cheaper are. Source of all fields: proc_pid_stat(5), proc_pid_smaps(5),
proc_pid_status(5), proc_pid_maps(5).
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable

from .kernel_confine import open_unobserved
from .linuxos import O_PATH
from .proctree import split_stat
from .typed import NamedTuple

PERIOD_SECONDS = 0.05
_LONGEST_SHARE = 10
"""A look may take one part in so many of the time: a large tree is looked at less often."""
_HEED_SECONDS = 0.25
"""By the clock: on a busy machine a command does not get to run between two looks."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_KIB = 1024
_MAX_STAT_BYTES = 4096
_MAX_MAPS_BYTES = 4 << 20
_MAPPING = re.compile(rb"[0-9a-f]+-[0-9a-f]+ (?P<rights>[rwxps-]{4}) \S+ \S+ (?P<inode>\d+) *(?P<name>.*)")
_NO_NAME = b" (deleted)"


class Process(NamedTuple):
    """What one line of /proc/PID/stat says."""

    pid: int
    parent: int
    started: int
    tasks: int
    resident_bytes: int
    cpu_seconds: float


class ProcessFiles:
    """One /proc, held open: its files stay within reach wherever this process goes (mount namespaces, changes of directory)."""

    def __init__(self) -> None:
        self.descriptor = os.open("/proc", O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Let go of it."""
        os.close(self.descriptor)

    def everyone(self) -> list[int]:
        """All processes but the first, which is the init."""
        directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.descriptor)
        try:
            return [int(name) for name in os.listdir(directory) if name.isdigit() and name != "1"]
        finally:
            os.close(directory)

    def read(self, name: str, size: int = _MAX_STAT_BYTES) -> bytes:
        """What a small file holds; nothing when it is not to be had."""
        try:
            descriptor = open_unobserved(name, os.O_RDONLY | os.O_CLOEXEC, self.descriptor)
            try:
                return os.read(descriptor, size)
            finally:
                os.close(descriptor)
        except OSError:
            return b""

    def process(self, pid: int) -> Process | None:
        """The process `pid`, or None when it is gone. A zombie counts: it holds a number, and time that nobody took over yet."""
        _, fields = split_stat(self.read(f"{pid}/stat"))
        if len(fields) < 22:
            return None
        number = [int(field) for field in fields[1:22]]
        return Process(
            pid=pid,
            parent=number[0],
            started=number[18],
            tasks=number[16],
            resident_bytes=number[20] * _PAGE_BYTES,
            cpu_seconds=sum(number[10:14]) / _TICKS,
        )

    def memory_bytes(self, pid: int) -> int:
        """Memory that only this process's end gives back: its share of anonymous and shared memory and of swap, no file pages.

        A process that may not be looked into counts with what its status says, which is never less.
        """
        exact = _kilobytes(self.read(f"{pid}/smaps_rollup"), (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:"))
        if exact is None:
            exact = _kilobytes(self.read(f"{pid}/status"), (b"RssAnon:", b"RssShmem:", b"VmSwap:"))
        return (exact or 0) * _KIB

    def made_bytes(self, pid: int) -> int:
        """`memory_bytes` without files in memory (tmpfs) that have a name and are mapped to be read: their pages were there
        before and stay, as those of a file on a disk. What is shared without a name, or mapped to be written in common, counts.

        A process that may not be looked into, or has too many mappings to look at, counts with all of it.
        """
        shared = (_kilobytes(self.read(f"{pid}/smaps_rollup"), (b"Pss_Shmem:",)) or 0) * _KIB
        maps = self.read_whole(f"{pid}/smaps", _MAX_MAPS_BYTES) if shared else b""
        made = _kilobytes_made(maps) * _KIB if maps else shared
        return self.memory_bytes(pid) - max(0, shared - made)

    def read_whole(self, name: str, most: int) -> bytes:
        """A file that the kernel hands out in pieces; nothing when it is not to be had, or longer than `most`."""
        try:
            with open(open_unobserved(name, os.O_RDONLY | os.O_CLOEXEC, self.descriptor), "rb") as file:
                text = file.read(most + 1)
        except OSError:
            return b""
        return text if len(text) <= most else b""


def _kilobytes_made(maps: bytes) -> int:
    """The memory of all mappings of files that are no longer, or never were, in a directory, or are written in common."""
    total, counts = 0, False
    for line in maps.splitlines():
        mapping = _MAPPING.fullmatch(line)
        if mapping is not None:
            written_in_common = mapping["rights"][1:2] == b"w" and mapping["rights"][3:4] == b"s"
            counts = mapping["inode"] != b"0" and (written_in_common or mapping["name"].endswith(_NO_NAME))
        elif counts and line.startswith(b"Pss:"):
            total += int(line.split()[1])
    return total


def _kilobytes(text: bytes, names: tuple[bytes, ...]) -> int | None:
    """The sum of the lines that begin with one of `names`; None when there is none."""
    found = [int(line.split()[1]) for line in text.splitlines() if line.startswith(names)]
    return sum(found) if found else None


class Watch:
    """The limits of one command's tree and what was seen of it.

    Args:
        limits: what `confine.resources.watched_limits` wrote: "memory" in bytes, "processes" (threads count), "cpu" in seconds.
    """

    def __init__(self, limits: dict[str, int], now: float) -> None:
        self._limits = limits
        self._known: dict[tuple[int, int], Process] = {}
        self._orphaned_seconds = 0.0
        self._heeded_until = 0.0
        self.due_at = now + PERIOD_SECONDS
        self.peak_bytes = 0
        self.peak_processes = 0

    def look(self, files: ProcessFiles, pids: Iterable[int]) -> str | None:
        """The first limit that the processes `pids` exceed together, or None. Sets `due_at` to when to look again."""
        began = time.monotonic()
        exceeded = self._exceeded(files, pids)
        ended = time.monotonic()
        self.due_at = ended + max(PERIOD_SECONDS, _LONGEST_SHARE * (ended - began))
        return exceeded

    def _exceeded(self, files: ProcessFiles, pids: Iterable[int]) -> str | None:
        found = self._read(files, pids)
        if found is None:
            return "processes"
        if self._memory_exceeds(files, found):
            return "memory"
        return "cpu" if self._time_exceeds(found) and time.monotonic() >= self._heeded_until else None

    def warn(self) -> None:
        """The command was told that its time is over: it may heed that before it is told again."""
        self._heeded_until = time.monotonic() + _HEED_SECONDS

    def _read(self, files: ProcessFiles, pids: Iterable[int]) -> list[Process] | None:
        """The processes, or None as soon as they are too many: reading all of a bomb would leave it the time to grow."""
        most = self._limits.get("processes", sys.maxsize)
        found: list[Process] = []
        tasks = 0
        for pid in pids:
            process = files.process(pid)
            if process is not None:
                found.append(process)
                tasks += process.tasks
                self.peak_processes = max(self.peak_processes, tasks)
            if tasks > most:
                return None
        return found

    def _memory_exceeds(self, files: ProcessFiles, found: list[Process]) -> bool:
        resident = sum(process.resident_bytes for process in found)
        most = self._limits.get("memory", resident)
        for exactly in (files.memory_bytes, files.made_bytes):
            if resident > most:
                resident = sum(exactly(process.pid) for process in found)
        self.peak_bytes = max(self.peak_bytes, resident)
        return resident > most

    def _time_exceeds(self, found: list[Process]) -> bool:
        """Each process with the children it waited for, and those that ended without anybody who did."""
        if "cpu" not in self._limits:
            return False
        alive = {(process.pid, process.started): process for process in found}
        parents = {process.pid: process.parent for process in self._known.values()}
        living = {process.pid for process in found}
        for identity, process in self._known.items():
            if identity not in alive and not _has_heir(process.parent, parents, living):
                self._orphaned_seconds += process.cpu_seconds
        self._known = alive
        return self._orphaned_seconds + sum(process.cpu_seconds for process in found) > self._limits["cpu"]


def _has_heir(parent: int, parents: dict[int, int], living: set[int]) -> bool:
    """Whether an ancestor that still lives may have taken over the time of a process that ended (times(2))."""
    for _ in range(len(parents)):
        if parent in living:
            return True
        if parent not in parents:
            return False
        parent = parents[parent]
    return False

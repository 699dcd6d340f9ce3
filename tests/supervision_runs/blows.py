"""When and whom to kill: the moments of an execution as its directory shows them (inotify(7)), its processes by their parents."""

from __future__ import annotations

import ctypes
import os
import random
import select
import signal
import struct
import time
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from pathlib import Path

import attrs

from tests.supervision_runs.jobs import runs
from tests.waiting import until

PROCESSES = ("client", "zygote", "keeper", "init")
STARTER = "starter"
TARGETS = tuple(each for size in range(1, 6) for each in combinations((*PROCESSES, STARTER), size))
"""Each alone, and all that can be killed together."""

_MODIFY, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x80, 0x100, 0x200
_WORDS = {_MODIFY: "written", _MOVED_TO: "replaced", _CREATE: "made", _DELETE: "removed"}
_HEADER = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


@attrs.frozen
class Moment:
    """A change that a watched directory showed, for the n-th time, from 1."""

    name: str
    change: str
    number: int

    def __str__(self) -> str:
        return f"{self.name} {self.change}" + (f" ({self.number})" if self.number > 1 else "")


class Watch:
    """The changes of an execution's directory, and of what is made in its workspace, as they come."""

    def __init__(self, execution: Path, workspace: Path) -> None:
        self.fd = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._seen: dict[tuple[str, str], int] = {}
        for path, mask in ((execution, _MODIFY | _MOVED_TO | _CREATE | _DELETE), (workspace, _CREATE)):
            assert _libc.inotify_add_watch(self.fd, os.fsencode(path), mask) >= 0

    def moments(self, seconds: float) -> list[Moment]:
        """What came, once something came or the time is over."""
        waiting = select.poll()
        waiting.register(self.fd, select.POLLIN)
        if not waiting.poll(max(0, int(seconds * 1000))):
            return []
        return [moment for name, mask in _changes(os.read(self.fd, 65536)) if (moment := self._moment(name, mask))]

    def _moment(self, name: str, mask: int) -> Moment | None:
        name, change = _plain(name), _WORDS[mask & 0xFFF]
        if name == "runner.log" and change == "written":
            return None  # the job's doing
        self._seen[name, change] = self._seen.get((name, change), 0) + 1
        return Moment(name, change, self._seen[name, change])

    def close(self) -> None:
        os.close(self.fd)


def _changes(raw: bytes) -> Iterator[tuple[str, int]]:
    while raw:
        _, mask, _, length = _HEADER.unpack_from(raw)
        yield raw[_HEADER.size : _HEADER.size + length].rstrip(b"\0").decode(), mask
        raw = raw[_HEADER.size + length :]


def _plain(name: str) -> str:
    """Without what is another in each run."""
    if name.startswith("ran-"):
        return "the job's mark"
    return "a temporary file" if name not in _NAMES else name


_NAMES = {
    ".lock", "run.lock", "terminal.rec", "state.json", "supervisor.log", "runner.log", "bell", "host-runtime", "spec.md",
    "lines", "live", "ended",
}  # fmt: skip


class Family:
    """The processes of one execution, found from its client; what was found once stays known.

    To be looked at from the first change in its directory on: before that its zygote has other children.
    """

    def __init__(self, client: int) -> None:
        self.pids = {"client": client}

    def look(self) -> None:
        """Learn who is there by now."""
        for parent, child in pairwise(PROCESSES):
            found = _children(self.pids[parent]) if parent in self.pids and child not in self.pids else []
            if found:
                self.pids[child] = found[0 if child == "init" else -1]
                if child == "init" and len(found) > 1:
                    self.pids[STARTER] = found[1]  # the second that a keeper forks, and ends soon

    def kill(self, targets: Sequence[str], chance: random.Random) -> dict[str, float]:
        """SIGKILL to those of them that live, in any order; when each was gone (CLOCK_MONOTONIC)."""
        self.look()
        wanted = [name for name in targets if name in self.pids and runs(self.pids[name])]
        chance.shuffle(wanted)
        for name in wanted:
            try:
                os.kill(self.pids[name], signal.SIGKILL)
            except ProcessLookupError:
                pass
        gone = {}
        for name in wanted:
            until(lambda pid=self.pids[name]: not runs(pid))
            gone[name] = time.monotonic()
        return gone


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []

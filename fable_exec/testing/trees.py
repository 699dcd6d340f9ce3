"""Small programs that make a known tree of processes: what each prints, who outlives whom, and how the first one ends.

Every process ends by itself after some seconds, none forks more than it says, and how many there are is known beforehand.
"""

from __future__ import annotations

import json
import sys
from typing import Literal

import attrs

__all__ = ["LONGEST_SECONDS", "MOST_PROCESSES", "Branch", "ProcessTree"]

MOST_PROCESSES = 12
"""Of one tree, its leader included; the intermediate process of a double fork, which ends at once, not."""
LONGEST_SECONDS = 20.0
"""What stays ends by itself after that, should nobody end it."""

Way = Literal["child", "session", "daemon"]
"""A child; one in a session of its own; one whose parent has gone, in a session of its own."""


@attrs.frozen
class Branch:
    """One process below the leader.

    Args:
        way: how it hangs in the tree.
        stays: it sleeps; otherwise it ends as soon as it has said its word.
        keeps_streams: it keeps standard output and standard error open while it stays.
        deaf: it ignores SIGTERM, SIGHUP and SIGINT.
        branches: its own children.
    """

    way: Way = "child"
    stays: bool = False
    keeps_streams: bool = True
    deaf: bool = False
    branches: tuple[Branch, ...] = ()

    @property
    def size(self) -> int:
        """How many processes this is."""
        return 1 + sum(each.size for each in self.branches)

    @property
    def staying(self) -> int:
        """How many of them sleep."""
        return self.stays + sum(each.staying for each in self.branches)


@attrs.frozen
class ProcessTree:
    """A leader that starts `branches`, waits until each process has said its word, says its own, and ends or stays.

    Args:
        exit_code: its exit status.
        stays: it sleeps instead, until somebody ends it.
    """

    branches: tuple[Branch, ...] = ()
    exit_code: int = 0
    stays: bool = False

    def __attrs_post_init__(self) -> None:
        if self.size > MOST_PROCESSES:
            raise ValueError(f"a tree has {MOST_PROCESSES} processes at most, not {self.size}")
        if not 0 <= self.exit_code <= 255:
            raise ValueError(f"an exit status is a number up to 255, not {self.exit_code}")

    @property
    def size(self) -> int:
        """How many processes it makes, the leader included."""
        return 1 + sum(each.size for each in self.branches)

    @property
    def staying(self) -> int:
        """How many processes besides the leader are alive when it ends, unless somebody ends them."""
        return sum(each.staying for each in self.branches)

    @property
    def words(self) -> tuple[bytes, ...]:
        """What standard output has, sorted: a line from every process. Standard error stays empty."""
        return tuple(sorted(b"word %d" % number for number in range(self.size)))

    def argv(self, marker: str, python: str = sys.executable) -> list[str]:
        """The command line. Every process of the tree has `marker` in its own (fable_exec.testing.alive_with)."""
        spec = json.dumps(attrs.asdict(self))
        return [python, "-I", "-S", "-c", _PROGRAM, spec, str(LONGEST_SECONDS), marker]


_PROGRAM = """
import json, os, signal, sys, time
SPEC, SECONDS = json.loads(sys.argv[1]), float(sys.argv[2])
SAID, TOLD = os.pipe()
NUMBER = [0]

def number_all(branch):
    branch["number"] = NUMBER[0]
    NUMBER[0] += 1
    for each in branch["branches"]:
        number_all(each)

def say(branch):
    os.write(1, b"word %d\\n" % branch["number"])
    os.write(TOLD, b".")

def live(branch):
    if branch["deaf"]:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    for each in branch["branches"]:
        start(each)
    say(branch)
    os.close(TOLD)  # the leader reads to the end of it: then everybody has said his word
    os.close(SAID)
    if branch["stays"]:
        if not branch["keeps_streams"]:
            os.close(1)
            os.close(2)
        time.sleep(SECONDS)
    os._exit(0)

def start(branch):
    if branch["way"] == "daemon":
        middle = os.fork()
        if middle:
            os.waitpid(middle, 0)
        else:
            os.setsid()
            if os.fork():
                os._exit(0)
            live_in(branch)
    elif os.fork() == 0:
        if branch["way"] == "session":
            os.setsid()
        live_in(branch)

def live_in(branch):
    try:
        live(branch)
    finally:
        os._exit(1)

number_all(SPEC)
for each in SPEC["branches"]:
    start(each)
os.close(TOLD)
while os.read(SAID, 64):
    pass
os.write(1, b"word 0\\n")
if SPEC["stays"]:
    time.sleep(SECONDS)
os._exit(SPEC["exit_code"])
"""

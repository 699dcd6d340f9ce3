"""The other process of the race tests: `attacker.py KIND DIRECTORY` changes a tree over and over until its stdin closes.

Says "ready" when it has done it once, and at the end how often. Whatever it does goes from one state of the tree to another whole
one; which states those are, test_races.py knows.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import select
import sys
import time
from collections.abc import Callable

BIG_BYTES = 8 << 20
MAPPED_BYTES = 64 << 10
VERSIONS = 8

Act = Callable[[int], None]


def big_content(version: int) -> bytes:
    return bytes([65 + version % VERSIONS]) * BIG_BYTES


def rewrite(root: str) -> Act:
    """Two files in turn, the long one in place and open no longer than it takes."""

    def act(turn: int) -> None:
        with open(f"{root}/big", "r+b", buffering=0) as file:
            content = memoryview(big_content(turn))
            while content:
                content = content[file.write(content) :]
        with open(f"{root}/small", "r+b", buffering=0) as file:
            file.write(b"%d" % (turn % VERSIONS))

    return act


def swap(root: str) -> Act:
    """A name that is a file, a link to a file outside, or a FIFO."""

    def act(turn: int) -> None:
        made = f"{root}/../made"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(made)
        if turn % 3 == 0:
            with open(made, "w") as file:
                file.write("inside")
            os.chmod(made, 0o644)
        elif turn % 3 == 1:
            os.symlink(f"{root}/../secret", made)
        else:
            os.mkfifo(made)
            os.chmod(made, 0o644)
        os.rename(made, f"{root}/name")

    return act


def come_and_go(root: str) -> Act:
    """A name that is a file, a link, a directory or nothing, by way of nothing."""

    def act(turn: int) -> None:
        if turn % 2 == 0:
            remove = os.rmdir if turn % 6 == 4 else os.unlink  # what the turn before made
            remove(f"{root}/name")
        elif turn % 6 == 1:
            os.symlink("target", f"{root}/name")
        elif turn % 6 == 3:
            os.mkdir(f"{root}/name")
        else:
            os.mkfifo(f"{root}/name")

    return act


def rename_directories(root: str) -> Act:
    """Two directories change their names by way of a third name."""

    def act(turn: int) -> None:
        os.rename(f"{root}/one", f"{root}/between")
        os.rename(f"{root}/two", f"{root}/one")
        os.rename(f"{root}/between", f"{root}/two")

    return act


def _fill(mapped: mmap.mmap, turn: int) -> None:
    mapped[:] = bytes([65 + turn % 2]) * MAPPED_BYTES


def hold_mapping(root: str) -> Act:
    """A mapping that stays, its descriptor closed: what is written moves no time stamp."""
    with open(f"{root}/mapped", "r+b") as file:
        mapped = mmap.mmap(file.fileno(), MAPPED_BYTES)
    return lambda turn: _fill(mapped, turn)


def map_again(root: str) -> Act:
    """A mapping that is made for each change and gone after it."""

    def act(turn: int) -> None:
        with open(f"{root}/mapped", "r+b") as file, mmap.mmap(file.fileno(), MAPPED_BYTES) as mapped:
            mapped[0]  # read first: the page is there when it is written to
            _fill(mapped, turn)

    return act


KINDS = {act.__name__: act for act in (rewrite, swap, come_and_go, rename_directories, hold_mapping, map_again)}
PAUSES = {"hold_mapping": 0.0}
"""The others leave the tree alone now and then, so that there is something to be digested."""


def main(kind: str, root: str) -> None:
    act, drawn, turn = KINDS[kind](root), random.Random(1), 0
    while True:
        turn += 1
        act(turn)
        if turn == 1:
            print("ready", flush=True)
        if select.select([sys.stdin], [], [], 0)[0]:
            break
        time.sleep(PAUSES.get(kind, drawn.choice([0.0, 0.002, 0.04, 0.15])))
    print(turn, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

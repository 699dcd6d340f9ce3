"""Which children of the launcher lead a command.

A leader can make itself a sibling (CLONE_PARENT, clone(2)), which is then the launcher's child too: the init of their slot, which
sees only children of its own, does not know of it.
"""

from __future__ import annotations

import os

_READ_BYTES = 1 << 16


def own_children() -> int:
    """The list of this thread's children in /proc, open; -1 where the kernel has none (CONFIG_PROC_CHILDREN is off).

    To be opened before this process enters a slot, whose /proc does not show it.
    """
    try:
        return os.open("/proc/thread-self/children", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


class Leaders:
    """For one single-threaded launcher; `children` is what `own_children` gave it."""

    def __init__(self, children: int) -> None:
        self._children = children
        self._known: set[int] = set()

    def note(self, leader: int) -> None:
        """A command was started."""
        self._known.add(leader)

    def forget(self, leader: int) -> None:
        """It was reaped."""
        self._known.discard(leader)

    def have_siblings(self) -> bool:
        """Whether anybody else is a child of this process; the dead are reaped. True where it cannot be told.

        Only this process reaps them, so that the list cannot lose one while it is read.
        """
        if self._children < 0:
            return True
        listed = os.pread(self._children, _READ_BYTES, 0)
        if not listed:
            return False
        siblings = set(map(int, listed.rpartition(b" ")[0].split())) - self._known
        living = [pid for pid in siblings if os.waitpid(pid, os.WNOHANG)[0] == 0]
        return bool(living) or len(listed) == _READ_BYTES  # a full read may have cut the last number, and lack others

"""What a fork must not carry over: a lock whose holder is a thread that is not there in the child (pthread_atfork(3)).

And whether this thread holds one: what the garbage collector calls may come in the midst of what a lock guards.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType

__all__ = ["ProcessLock", "holds_any"]

_of_this_thread = threading.local()


class ProcessLock:
    """A lock of this process, for `with`. A forked child finds one of its own that nobody holds, whoever holds the parent's.

    One thread may take it twice: garbage may be collected in the midst, and want the same. In the child what the lock guards is
    as the parent's threads left it, perhaps in the midst of a change; so it must be safe to read at every moment.
    """

    __slots__ = ("_by_process",)

    def __init__(self) -> None:
        self._by_process = {os.getpid(): threading.RLock()}

    def __enter__(self) -> None:
        pid = os.getpid()
        own = self._by_process.get(pid)
        if own is None:
            own = self._by_process.setdefault(pid, threading.RLock())
        own.acquire()
        _of_this_thread.held = getattr(_of_this_thread, "held", 0) + 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        own = self._by_process.get(os.getpid())
        if own is not None:  # none: the block itself forked, and this is the child
            own.release()
        _of_this_thread.held -= 1


def holds_any() -> bool:
    """Whether this thread is within a lock of this kind, any of them."""
    return getattr(_of_this_thread, "held", 0) > 0

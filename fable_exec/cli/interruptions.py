"""Signals that ask us to end, noted while a command runs. Handlers are set here and nowhere else: this process is our own."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

__all__ = ["Interruptions", "interrupt_with_parent"]

_LOOK_SECONDS = 0.1
"""How often to look whether the parent is still there; no platform tells of a parent's end and not of a mere thread's."""
_ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruptions:
    """Within `with`: the first of the signals is kept in `received`, each one calls `on_signal`.

    A handler raises nothing, so it cannot tear what the main thread is doing; whoever waits watches `descriptor`, which becomes
    readable. A signal that was ignored when we were started (nohup, a shell's background job) stays ignored.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._on_signal: Callable[[], object] | None = None
        self._before: dict[signal.Signals, Any] = {}
        self.descriptor, self._writer = os.pipe()

    def call(self, on_signal: Callable[[], object]) -> None:
        """Have `on_signal` called for each signal from now on, and for one that came already."""
        self._on_signal = on_signal
        if self.received is not None:
            on_signal()

    def __enter__(self) -> Interruptions:
        for number in _ASKING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self.descriptor)
        os.close(self._writer)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.received is None:
            self.received = number
            os.write(self._writer, b"\0")
        if self._on_signal is not None:
            self._on_signal()


def interrupt_with_parent(pid: int) -> None:
    """Have this process get SIGTERM once its parent `pid` is gone, also if that is so already. The thread is a daemon."""
    threading.Thread(target=_interrupt_with_parent, args=(pid,), name="fable_exec parent", daemon=True).start()


def _interrupt_with_parent(pid: int) -> None:
    while os.getppid() == pid:
        time.sleep(_LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)

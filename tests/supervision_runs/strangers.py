"""Processes that are given the number of another, and tell whether any signal came to them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.waiting import until

_LAST = Path("/proc/sys/kernel/ns_last_pid")
_ASK = b"?"


class Stranger:
    """Leads a session and a group of its own, as a job does. All signals are blocked in it, so that none that comes is lost.

    Args:
        number: its process number, which nobody has now; in a PID namespace of ours.
    """

    def __init__(self, number: int) -> None:
        self.pid = until(lambda: self._made(number))

    def _made(self, number: int) -> int:
        asked, self._ask = os.pipe()
        self._answer, answering = os.pipe()
        _LAST.write_text(str(number - 1))
        pid = os.fork()
        if pid == 0:
            _be_stranger(asked, answering, (self._ask, self._answer))
        os.close(asked)
        os.close(answering)
        os.read(self._answer, 1)
        if pid == number:
            return pid
        self.pid = pid
        self.end()  # another process was born in between
        return 0

    def end(self) -> list[str]:
        """End it; the signals that came to it. SIGKILL is told by its end."""
        try:
            os.write(self._ask, _ASK)
            told = os.read(self._answer, 999).decode().split()
        except BrokenPipeError:
            told = []
        os.close(self._ask)
        os.close(self._answer)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return told if status == 0 else [*told, signal.Signals(-status).name]


def _be_stranger(asked: int, answering: int, not_ours: tuple[int, ...]) -> None:
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        os.setsid()
        for descriptor in not_ours:
            os.close(descriptor)
        os.write(answering, b"!")
        os.read(asked, 1)
        os.write(answering, " ".join(signal.Signals(number).name for number in signal.sigpending()).encode() or b" ")
    finally:
        os._exit(0)


def with_strangers(numbers: list[int], act: Callable[[], Any]) -> tuple[Any, list[str]]:
    """What `act` returns while strangers have those numbers, and every signal that came to one of them."""
    strangers = [Stranger(number) for number in numbers]
    try:
        answer = act()
    finally:
        signals = [name for stranger in strangers for name in stranger.end()]
    return answer, signals

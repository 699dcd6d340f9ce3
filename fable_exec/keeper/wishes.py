"""Who asks a keeper to end its job: signals to it, and whoever rings its bell and has left word in the state."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from fable_exec._launcher.job_leader import OF_A_KEEPER
from fable_exec._launcher.linuxos import pipe_unblocking
from fable_exec.executions import bell

__all__ = ["ENDING_SIGNALS", "Wishes"]

ENDING_SIGNALS = OF_A_KEEPER
"""What asks a keeper to end its job. Its zygote forks it with these blocked, so that none comes before it can be noticed."""
_WAKE_BYTES = 4096


class Wishes:
    """For a process of its own. `descriptor` is readable after a signal; `by_signal` says that one of these came."""

    def __init__(self) -> None:
        self.descriptor, self._writing = pipe_unblocking()
        self.by_signal = False
        self._rang = True  # something may have been written before there was a bell
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        for number in ENDING_SIGNALS:
            signal.signal(number, self._notice)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)

    def _notice(self, number: int, frame: object) -> None:
        self.by_signal = True

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Signals come later: for a fork of one that is not to handle them."""
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)

    def part(self) -> None:
        """In a child: be woken for its own signals alone. What came before the fork came to both."""
        shared = self.descriptor, self._writing
        self.descriptor, self._writing = pipe_unblocking()
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        for descriptor in shared:
            os.close(descriptor)

    def wake(self) -> None:
        """Take what a signal woke us with."""
        try:
            os.read(self.descriptor, _WAKE_BYTES)
        except BlockingIOError:
            pass

    def hear(self, its_bell: int) -> None:
        """Take what was rung."""
        bell.hear(its_bell)
        self._rang = True

    def look_again(self) -> None:
        """As if it had rung: somebody may have taken the bell away."""
        self._rang = True

    def has_rung(self) -> bool:
        """Whether the bell rang since the last time this was asked."""
        rang, self._rang = self._rang, False
        return rang

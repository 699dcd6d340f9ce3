"""Run one execution in the foreground of a process of its own: its output on our standard output, our signals as its stop.

The job is kept by its keeper all the same; what ends this process ends neither.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from fable_exec._sys.inherited import AT_ONCE_BYTES
from fable_exec.errors import FableExecError, UnknownExecution
from fable_exec.executions import ExecutionDirectory
from fable_exec.executions.names import RUNNER_LOG_NAME
from fable_exec.supervisor.execution import required
from fable_exec.supervisor.following import LogReader
from fable_exec.supervisor.stopping import request_end
from fable_exec.supervisor.waiting import KeeperWatch
from fable_exec.supervisor.zygote import Waiting

__all__ = ["Wish", "await_answer", "relay", "wished_by_signal"]

_SIGNALS = (signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
_ROUND_SECONDS = 0.05
_EARLY_SECONDS = 0.002
"""Between `accepted` and the gate there are milliseconds: a wish that is heard in them keeps the job from running at all."""
_OUTPUT = 1
_WAKE_BYTES = 4096


class Wish:
    """That the job shall end: made by a signal, and carried out once there is a state to leave word in."""

    def __init__(self, waker: int) -> None:
        self.waker = waker
        self.is_there = False
        self.signal = 0
        self._is_granted = False

    def make(self, number: int, frame: FrameType | None) -> None:
        """The handler: it only takes note."""
        self.is_there = True
        self.signal = number

    @property
    def is_open(self) -> bool:
        """Whether it was made, and not carried out yet."""
        return self.is_there and not self._is_granted

    def hear(self) -> None:
        """Take what woke us."""
        try:
            os.read(self.waker, _WAKE_BYTES)
        except BlockingIOError:
            pass

    def grant(self, directory: ExecutionDirectory) -> None:
        """Ask for the end, once, if that is wished; nothing is done where it is too early, or too late."""
        if self.is_open:
            try:
                request_end(directory)
                self._is_granted = True
            except (UnknownExecution, TimeoutError):
                pass  # not accepted yet, or somebody has the lock: the next round tries again
            except FableExecError:
                self._is_granted = True  # nobody keeps it: its end is noticed by itself


@contextmanager
def wished_by_signal() -> Iterator[Wish]:
    """SIGTERM, SIGINT and SIGHUP make the wish, within the block, for the main thread of a process of its own."""
    waker, writing = os.pipe()
    os.set_blocking(waker, False)
    os.set_blocking(writing, False)
    wish = Wish(waker)
    before: dict[int, Any] = {}
    woken_before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup(1): what was ignored stays so
                before[number] = signal.signal(number, wish.make)
        yield wish
    finally:
        for taken, handler in before.items():
            signal.signal(taken, handler)
        signal.set_wakeup_fd(woken_before)
        os.close(waker)
        os.close(writing)


def await_answer(waiting: Waiting, directory: ExecutionDirectory, wish: Wish) -> None:
    """Until the keeper has answered; what is wished meanwhile is left in the state as soon as there is one. Raises BrokerGone."""
    answer = waiting.channel.fileno()
    give_up_at = time.monotonic() + waiting.patience_seconds
    while time.monotonic() < give_up_at:
        wish.grant(directory)
        if answer in _ready(
            {answer: select.POLLIN, wish.waker: select.POLLIN}, _EARLY_SECONDS if wish.is_open else _ROUND_SECONDS
        ):
            return
        wish.hear()
    raise waiting.too_late()


def relay(directory: ExecutionDirectory, wish: Wish) -> None:
    """Until nobody keeps the execution: its output to ours as it comes, the wish to its state.

    Output that nobody reads holds neither the wish nor the job up. Where our output is closed, nothing is passed on any more.
    """
    with KeeperWatch(directory, required(directory).document) as watch, LogReader(directory.path / RUNNER_LOG_NAME) as log:
        output = _Output(log)
        while True:
            wish.grant(directory)
            is_over = watch.wait(0)  # asked before reading: what was written before the end is read after it
            output.read()
            if is_over and not output.pending:
                return
            awaited = {wish.waker: select.POLLIN}
            if output.pending:
                awaited[_OUTPUT] = select.POLLOUT
            if not is_over and watch.descriptor is not None:
                awaited[watch.descriptor] = select.POLLIN
            ready = _ready(awaited)
            wish.hear()
            if _OUTPUT in ready:
                output.write()
            elif is_over and wish.is_there:
                return  # nobody takes it, and we shall end


class _Output:
    """From the log to our standard output. `pending` is what was read and not taken yet."""

    def __init__(self, log: LogReader) -> None:
        self._log = log
        self._is_closed = False
        self.pending = b""

    def read(self) -> None:
        """The next piece, if the last was taken."""
        if not self.pending and not self._is_closed:
            self.pending = self._log.read()

    def write(self) -> None:
        """As much as is taken without making us wait, and a signal with us."""
        try:
            self.pending = self.pending[os.write(_OUTPUT, self.pending[:AT_ONCE_BYTES]) :]
        except BlockingIOError:
            pass
        except OSError:  # closed, or a disk that is full: the log has all of it
            self._is_closed, self.pending = True, b""


def _ready(awaited: dict[int, int], seconds: float = _ROUND_SECONDS) -> set[int]:
    """Which of them are, within that time."""
    poll = select.poll()
    for descriptor, events in awaited.items():
        poll.register(descriptor, events)
    return {descriptor for descriptor, _ in poll.poll(seconds * 1000)}

"""The keepers' zygote, with its keepers waited for: `metered` has a supervisor start this file instead of the library's own.

A zygote ignores SIGCHLD, so that no keeper stays a zombie, and with it what they used is lost. This one reaps them itself and
writes down, in its working directory's stead, how many there were and the processor time of the whole tree until now.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Meter", "metered"]

_METER = ".meter"
_LINE_BYTES = 100
_PAUSE_SECONDS = 0.0002


class Meter:
    """What the metered zygote wrote last."""

    def __init__(self, program: Path) -> None:
        self._path = program.with_suffix(_METER)

    def read(self) -> tuple[int, float]:
        """How many keepers have ended, and the processor seconds of the zygote and of everything that they waited for."""
        count, seconds = self._path.read_text("ascii").split()
        return int(count), float(seconds)

    def read_after(self, count: int) -> tuple[int, float]:
        """The same, once more than `count` have ended."""
        while (found := self.read())[0] <= count:
            time.sleep(_PAUSE_SECONDS)
        return found


@contextmanager
def metered(directory: Path) -> Iterator[Meter]:
    """Supervisors of this process start a metered zygote as long as this lasts. Its file is a copy of this one in `directory`."""
    from fable_exec.supervisor import zygote

    program = directory / "zygote.py"
    program.write_text(Path(__file__).read_text("utf-8"), "utf-8")
    program.with_suffix(_METER).write_text("0 0", "ascii")
    real = zygote._PROGRAM
    zygote._PROGRAM = program
    try:
        yield Meter(program)
    finally:
        zygote._PROGRAM = real


def _serve(arguments: list[str]) -> None:
    sys.path[:0] = arguments[:-1]
    from fable_exec.keeper import zygote

    meter, real = str(Path(__file__).with_suffix(_METER)), signal.signal
    ended = [0, 0.0]

    def reap(number: int, frame: object) -> None:
        while True:
            try:
                pid, _, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            ended[0] += 1
            ended[1] += used.ru_utime + used.ru_stime
        fd = os.open(meter, os.O_WRONLY)
        os.pwrite(fd, f"{ended[0]} {ended[1] + time.process_time():.6f}".ljust(_LINE_BYTES).encode("ascii"), 0)
        os.close(fd)

    def reaping(number: int, action: Any) -> Any:
        ignores = number == signal.SIGCHLD and action is signal.SIG_IGN
        return real(number, reap if ignores else action)

    signal.signal = reaping  # type: ignore[assignment]  # what is not to be measured stays as it is
    os.chdir("/")
    zygote.serve(int(arguments[-1]))


if __name__ == "__main__":
    _serve(sys.argv[1:])

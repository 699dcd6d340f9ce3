"""Hold another process up right before it sends a signal (ptrace(2)), so that something can happen in between."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from tests import tracing

_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17
_TRACESYSGOOD = 0x1
_WALL = 0x40000000
_SENDING = {"pidfd_send_signal", "kill", "tgkill"}


def held_up_at_its_signal(pid: int, begin: Callable[[], object], between: Callable[[], None]) -> None:
    """Do `begin`, and when the process `pid` is about to send a signal that is more than a question, `between`; then it goes on.

    Its own wish to signal is what stops it: should it never send one, it ends, and that is a ChildProcessError here.
    """
    tracing._trace(_SEIZE, pid, _TRACESYSGOOD)
    tracing._trace(_INTERRUPT, pid)
    os.waitpid(pid, _WALL)
    begin()
    while not _is_about_to_signal(pid):
        tracing._trace(tracing._SYSCALL, pid)
        _, status = os.waitpid(pid, _WALL)
        if not os.WIFSTOPPED(status):
            raise ChildProcessError("it has ended")
    between()
    tracing._trace(_DETACH, pid)


def _is_about_to_signal(pid: int) -> bool:
    op, _, _, _, number, _, sent, *_ = tracing._INFO.unpack(tracing._info(pid))
    return op == tracing._ENTRY and tracing._NAMES.get(number) in _SENDING and sent in signal.valid_signals()

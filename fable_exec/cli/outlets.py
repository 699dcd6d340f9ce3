"""Hand bytes to standard output and error as they are, without ever waiting where a signal could not be noticed."""

from __future__ import annotations

import os
import select
import stat
import threading

from fable_exec._sys.inherited import AT_ONCE_BYTES, GONE

__all__ = ["Outlet", "OutletGone", "exit_when_gone"]


class OutletGone(Exception):
    """Nobody reads what is written any more."""


class Outlet:
    """One descriptor to write to.

    It is left blocking: O_NONBLOCK belongs to the open file, which other programs share. `stop` is a descriptor that becomes
    readable when writing shall end at once; what is not written then is lost.
    """

    def __init__(self, descriptor: int, stop: int | None = None) -> None:
        self._descriptor = descriptor
        self._stop = stop
        self._piece_bytes = 1 << 20 if _is_regular(descriptor) else AT_ONCE_BYTES

    @property
    def gone(self) -> bool:
        """Whether its reader is known to be gone."""
        return bool(self._poll(0, 0) & GONE)

    def write(self, data: bytes) -> None:
        """Write all of `data`, or up to the moment when `stop` says so.

        Raises:
            OutletGone: the reader has closed its end.
            OSError: such as a full disk.
        """
        rest = memoryview(data)
        while rest and self._until_writable():
            try:
                rest = rest[os.write(self._descriptor, rest[: self._piece_bytes]) :]
            except BlockingIOError:
                pass  # somebody else made it non-blocking, and it takes less than a piece
            except ConnectionError:
                raise OutletGone from None

    def _until_writable(self) -> bool:
        """Wait; False when writing shall end."""
        return self._poll(select.POLLOUT, None) != 0

    def _poll(self, events: int, milliseconds: int | None) -> int:
        """The descriptor's events, 0 when there are none or `stop` is readable."""
        waiting = select.poll()
        waiting.register(self._descriptor, events)
        if self._stop is not None:
            waiting.register(self._stop, select.POLLIN)
        found = dict(waiting.poll(milliseconds))
        return 0 if self._stop in found else found.get(self._descriptor, 0)


def exit_when_gone(descriptor: int, status: int) -> None:
    """Have this process end with `status` once nobody reads `descriptor` any more, whatever it waits for then.

    For a process that has nothing to give back: what it holds goes with it. The thread is a daemon.
    """
    threading.Thread(target=_exit_when_gone, args=(descriptor, status), name="fable_exec stdout", daemon=True).start()


def _exit_when_gone(descriptor: int, status: int) -> None:
    waiting = select.poll()
    waiting.register(descriptor, 0)
    waiting.poll()  # asked for nothing, it tells only that
    os._exit(status)


def _is_regular(descriptor: int) -> bool:
    try:
        return stat.S_ISREG(os.fstat(descriptor).st_mode)
    except OSError:
        return False

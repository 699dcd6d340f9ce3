"""The writing end of a command's standard input: first the declared bytes, then what is fed, then the end.

Safe among threads: a descriptor that one thread closes while another writes to its number would hit a stranger's file.
"""

from __future__ import annotations

import os
import signal

from fable_exec._sys.forks import ProcessLock

PIECE_BYTES = 1 << 16


class CommandInput:
    """A pipe whose reading end goes to the command. Closed until `open`; `descriptor` is -1 then and after `close`.

    `pushing` says that the declared bytes are still on their way, and that their pusher watches the descriptor.
    """

    def __init__(self, declared: bytes, *, stays_open: bool) -> None:
        self.descriptor = -1
        self._declared = memoryview(declared)
        self._stays_open = stays_open
        self.pushing = False
        self._guard = ProcessLock()

    def open(self) -> int:
        """Make the pipe and return its reading end, which is the caller's. Raises OSError; nothing is open then."""
        reading, self.descriptor = os.pipe()
        return reading

    def begin(self) -> bool:
        """Start; returns whether there are declared bytes to `push` whenever the command reads."""
        os.set_blocking(self.descriptor, False)
        self.pushing = len(self._declared) > 0
        if not self.pushing and not self._stays_open:
            self.close()
        return self.pushing

    def push(self) -> bool:
        """Write some declared bytes; returns whether there are more. The last call is followed by `pushed`."""
        try:
            written = _write(self.descriptor, self._declared[:PIECE_BYTES])
        except BlockingIOError:
            return True
        except BrokenPipeError:
            written = len(self._declared)  # the command does not want the rest
        self._declared = self._declared[written:]
        return len(self._declared) > 0

    def pushed(self) -> None:
        """The declared bytes are out and nobody watches the descriptor any more."""
        with self._guard:
            self.pushing = False
            if not self._stays_open:
                self._close()

    def feed(self, data: bytes) -> int:
        """Write some of `data` now; returns how many bytes were taken.

        Raises BrokenPipeError when the command does not read any more, BlockingIOError when it is not reading just now.
        """
        with self._guard:
            if self.descriptor < 0 or not self._stays_open:
                raise BrokenPipeError("standard input is closed")
            if self.pushing:
                raise BlockingIOError("the declared input comes first")
            return _write(self.descriptor, data)

    def finish(self) -> None:
        """Let the command see the end of its input, after the bytes that were declared."""
        with self._guard:
            self._stays_open = False
            if not self.pushing:
                self._close()

    def close(self) -> None:
        """Close now, whatever is still unwritten. Idempotent."""
        with self._guard:
            self._close()

    def _close(self) -> None:
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            os.close(descriptor)


def _write(descriptor: int, data: bytes | memoryview) -> int:
    """write(2) that cannot kill the embedding process, also where that has set SIGPIPE to its default."""
    if signal.getsignal(signal.SIGPIPE) is not signal.SIG_DFL:
        return os.write(descriptor, data)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
    try:
        return os.write(descriptor, data)
    except BrokenPipeError:
        if signal.SIGPIPE not in before and signal.SIGPIPE in signal.sigpending():
            signal.sigwait({signal.SIGPIPE})
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

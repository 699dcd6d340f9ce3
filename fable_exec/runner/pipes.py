"""The descriptors of one command while it is being started: which stay here, which go to the launcher.

Here as everywhere in this package a number is forgotten before it is closed: a child that another thread forks in between must
not close it once more, when it may name another file.
"""

from __future__ import annotations

import array
import os
import socket

from fable_exec._launcher import wire


class Pipes:
    """Opened together or not at all. `given` is in the order of the launcher's protocol: its channel, then the streams."""

    def __init__(self) -> None:
        self.given: list[int] = []
        self._kept: list[int] = []

    def open(self) -> socket.socket:
        """Make the channel, which is returned and the caller's, and two output pipes. Raises OSError; `close` all the same."""
        ours, theirs = wire.socket_pair()
        self.given.append(theirs.detach())
        try:
            for _ in range(2):
                reading, writing = os.pipe()
                self._kept.append(reading)
                self.given.append(writing)
                os.set_blocking(reading, False)
        except BaseException:
            ours.close()
            raise
        return ours

    def take_kept(self) -> list[int]:
        """The reading ends of both output pipes; they are the caller's from now on."""
        kept, self._kept = self._kept, []
        return kept

    def close_given(self) -> None:
        """The launcher has its copies: drop ours, so that the end of the streams can be seen."""
        while self.given:
            os.close(self.given.pop())

    def close(self) -> None:
        """Close what is still here. Idempotent."""
        self.close_given()
        for descriptor in self.take_kept():
            os.close(descriptor)


def unread_bytes(descriptor: int) -> int:
    """How many bytes wait in a pipe (ioctl FIONREAD, see pipe(7))."""
    import fcntl
    import termios

    count = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, count)
    return count[0]

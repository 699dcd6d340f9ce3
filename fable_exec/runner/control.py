"""The socket that takes requests of one launcher. Safe among threads: a send can not meet a closed descriptor."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from typing import Any

from fable_exec._launcher import wire
from fable_exec._sys.forks import ProcessLock


class Control:
    """Our end of a launcher's control socket."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._guard = ProcessLock()  # garbage may be collected in the midst, and a broker end with it
        self._pinned: dict[str, int] = {}
        self._told: Iterable[tuple[str, int]] = ()

    def send(self, message: Any, descriptors: tuple[int, ...], pins: Iterable[tuple[str, int]] = ()) -> None:
        """Send a request without waiting, and with it those of `pins` that this launcher has not been told of.

        Raises PeerGone when the launcher is gone or this end closed, BlockingIOError when it has more requests than it can take.
        """
        with self._guard:
            if self._channel.fileno() < 0:
                raise wire.PeerGone
            # The same object as last time, as it nearly always is, holds nothing new.
            news = {} if pins is self._told else {path: stamp for path, stamp in pins if self._pinned.get(path) != stamp}
            wire.send(self._channel, {**message, "pins": list(news)}, descriptors, wire.DO_NOT_WAIT)
            self._pinned.update(news)
            self._told = pins

    def duplicate(self) -> int:
        """A descriptor of the caller's own that becomes writable when `send` is worth another try. Raises PeerGone."""
        with self._guard:
            if self._channel.fileno() < 0:
                raise wire.PeerGone
            return os.dup(self._channel.fileno())

    def close(self) -> None:
        """Let the launcher end. Shut down as well: a forked copy of this process may hold the socket open."""
        with self._guard:
            try:
                self._channel.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            self._channel.close()

    def abandon(self) -> None:
        """In a forked child: let go of the parent's launcher without touching it. The guard may be held for ever here."""
        self._channel.close()

"""The one answer to whoever asked for an execution. Whether anybody still listens is all one."""

from __future__ import annotations

import socket

from fable_exec._launcher import wire
from fable_exec.keeper.requests import Answered

__all__ = ["Reply"]


class Reply:
    """Where it goes to; closed with it."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel: socket.socket | None = channel

    @property
    def is_open(self) -> bool:
        """Whether nothing was answered yet."""
        return self._channel is not None

    def tell(self, answered: Answered) -> None:
        """Answer; only the first time."""
        if self._channel is None:
            return
        try:
            wire.send(self._channel, answered.to_wire())
        except wire.PeerGone:
            pass
        self.close()

    def close(self) -> None:
        """Leave it to another process to answer, or to have answered."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

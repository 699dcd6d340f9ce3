"""Ports that nobody listens at."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port of 127.0.0.1 that was free just now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])

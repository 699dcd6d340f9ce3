"""Commands over a local socket, one message a connection: a Unix socket of this user only, or a port of 127.0.0.1.

Any user of the machine can connect to a port, and only the token stands between; prefer the Unix socket.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import struct
import time
from collections.abc import Iterable
from pathlib import Path

import attrs

from fable_exec.admin.control import MAX_LINE_BYTES, AdminControl, encode, no_channel, tell
from fable_exec.errors import PolicyError

__all__ = ["PATIENCE_SECONDS", "SocketChannel"]

PATIENCE_SECONDS = 5.0
"""How long a connection may take to say its one message."""
_MAX_CONNECTIONS = 16
_LOOPBACK = "127.0.0.1"
_CREDENTIALS = struct.Struct("iII")  # pid, uid, gid; unix(7)
_PORT = re.compile(r"(?P<host>[^/]*):(?P<port>[0-9]{1,5})")


@attrs.define
class _Connection:
    """One that has not said all yet."""

    socket: socket.socket
    give_up_at: float
    received: bytearray = attrs.field(factory=bytearray)


class SocketChannel:
    """Listens at `address`: the path of a Unix socket, or ``127.0.0.1:PORT``, ``:PORT`` (port 0 is chosen and printed)."""

    def __init__(self, address: str, control: AdminControl, workspace: Path) -> None:
        self._control = control
        self._connections: dict[int, _Connection] = {}
        self._path: Path | None = None
        self._own_identity: tuple[int, int] | None = None
        port = _PORT.fullmatch(address)
        self._listener = self._on_port(port["host"], int(port["port"])) if port else self._on_path(Path(address), workspace)
        self._listener.listen(_MAX_CONNECTIONS)
        self._listener.setblocking(False)
        if port:
            # What a host that asked for port 0 waits for.
            tell(f"ADMIN_PORT={self._listener.getsockname()[1]}")

    def watched(self) -> Iterable[int]:
        room = len(self._connections) < _MAX_CONNECTIONS
        return (*self._connections, *((self._listener.fileno(),) if room else ()))

    def ready(self, descriptor: int) -> None:
        if descriptor == self._listener.fileno():
            self._accept()
        elif descriptor in self._connections:
            self._receive(self._connections[descriptor])

    def due_at(self) -> float | None:
        return min((each.give_up_at for each in self._connections.values()), default=None)

    def tick(self) -> None:
        now = time.monotonic()
        for connection in [each for each in self._connections.values() if each.give_up_at <= now]:
            self._end(connection, {"ok": False, "error": "no message came in time", "code": "invalid-request"})

    def close(self) -> None:
        for connection in list(self._connections.values()):
            connection.socket.close()
        self._listener.close()
        if self._path is not None and _identity(self._path) == self._own_identity:
            self._path.unlink(missing_ok=True)

    # Listening

    @staticmethod
    def _on_port(host: str, port: int) -> socket.socket:
        if host not in ("", _LOOPBACK):
            raise no_channel(f"the admin's socket may only be at {_LOOPBACK}, not {host!a:.100}")
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((_LOOPBACK, port))
        except (OSError, OverflowError) as error:
            listener.close()
            raise no_channel(f"the admin's port {port} cannot be had: {error}") from error
        return listener

    def _on_path(self, path: Path, workspace: Path) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            place = path.absolute().parent.resolve(strict=True) / path.name
            if place.parent.is_relative_to(workspace):
                raise no_channel("the admin's socket must be outside the workspace")
            _remove_stale(place)
            listener.bind(str(place))
            place.chmod(0o600)
        except (OSError, RuntimeError) as error:
            listener.close()
            if isinstance(error, PolicyError):
                raise
            raise no_channel(f"the admin's socket {str(path)!a:.200} cannot be had: {_why(error)}") from error
        except PolicyError:
            listener.close()
            raise
        self._path, self._own_identity = place, _identity(place)
        return listener

    # Talking

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:
            return  # it went away again
        accepted.setblocking(False)
        connection = _Connection(accepted, time.monotonic() + PATIENCE_SECONDS)
        self._connections[accepted.fileno()] = connection
        if not _is_own_user(accepted):
            self._end(connection, {"ok": False, "error": "another user may not command", "code": "denied"})

    def _receive(self, connection: _Connection) -> None:
        try:
            data = connection.socket.recv(MAX_LINE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        connection.received += data
        line, newline, _ = bytes(connection.received).partition(b"\n")
        if len(line) > MAX_LINE_BYTES:
            self._end(connection, {"ok": False, "error": "the message is too long", "code": "frame-too-large"})
        elif newline or not data or self._control.is_whole(line):
            self._end(connection, self._control.answer(line) if line.strip() else None)

    def _end(self, connection: _Connection, answer: dict[str, object] | None) -> None:
        del self._connections[connection.socket.fileno()]
        try:
            if answer is not None:
                connection.socket.send(encode(answer))
        except OSError:
            pass
        connection.socket.close()


def _is_own_user(connection: socket.socket) -> bool:
    if connection.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):
        return True  # a port has no user; elsewhere the mode of the socket file keeps others out
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user: int = _CREDENTIALS.unpack(peer)[1]
    return user == os.geteuid()


def _why(error: OSError | RuntimeError) -> str:
    if isinstance(error, FileNotFoundError):
        return "its directory does not exist; make it first"
    return getattr(error, "strerror", None) or str(error)


def _remove_stale(path: Path) -> None:
    """Remove a socket file of ours that nobody listens at; anything else that has the name makes the bind fail."""
    try:
        status = os.lstat(path)
    except OSError:
        return
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.geteuid():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except OSError:
            pass


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino

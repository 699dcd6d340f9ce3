"""The program that a smoke probe runs inside the boundary. It needs the standard library of an isolated interpreter only.

It is handed over as text (`python -I -S -c`), so that no file of it has to be readable there. Its exit status is the finding.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
from collections.abc import Callable

__all__ = ["main"]

OK, UNFIT, SIBLING, SOCKET, PORT = 0, 40, 41, 42, 43
_REFUSED = (errno.EACCES, errno.EPERM)
_OUT_OF_SIGHT = (*_REFUSED, errno.ENOENT)
_CONNECT_SECONDS = 5.0


def main(workspace: str, system_file: str, secret: str, socket_path: str, port: int) -> int:
    """Do what must work and try what must not. Returns the exit status."""
    try:
        _write(os.path.join(workspace, "written-by-the-probe"))
        _read(system_file)
        _start_and_kill_a_group()
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return UNFIT
    if not _is_refused(lambda: _read(secret), _OUT_OF_SIGHT):
        return SIBLING
    if not _is_refused(lambda: _connect(socket.AF_UNIX, socket_path), _OUT_OF_SIGHT):
        return SOCKET
    # Below 1024 the kernel refuses to bind whatever the boundary says: connecting tells.
    address = ("127.0.0.1", port)
    is_reserved = _is_refused(lambda: _bind(address), _REFUSED) and _is_refused(
        lambda: _connect(socket.AF_INET, address), _REFUSED
    )
    return OK if is_reserved else PORT


def _is_refused(attempt: Callable[[], None], answers: tuple[int, ...]) -> bool:
    """Whether the kernel's answer says no; any other failure proves nothing and counts as none."""
    try:
        attempt()
    except OSError as error:
        return error.errno in answers
    return False


def _write(path: str) -> None:
    with open(path, "wb") as file:
        file.write(b"written")


def _read(path: str) -> None:
    with open(path, "rb") as file:
        file.read(1)


def _start_and_kill_a_group() -> None:
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            signal.alarm(10)  # nobody waits for it beyond that
            signal.pause()
        finally:
            os._exit(1)
    try:
        os.setpgid(child, child)  # whichever of the two comes first
    except PermissionError:
        pass
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _connect(family: int, address: str | tuple[str, int]) -> None:
    with socket.socket(family) as connection:
        connection.settimeout(_CONNECT_SECONDS)
        connection.connect(address)


def _bind(address: tuple[str, int]) -> None:
    with socket.socket(socket.AF_INET) as listener:
        listener.bind(address)


if __name__ == "__main__":
    _workspace, _system_file, _secret, _socket_path, _port = sys.argv[1:]
    sys.exit(main(_workspace, _system_file, _secret, _socket_path, int(_port)))

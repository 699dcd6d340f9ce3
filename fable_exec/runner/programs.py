"""Programs of ours as children of the embedding process: started, waited for, killed. One socket is all that they share."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from collections.abc import Sequence
from typing import Any

from fable_exec._launcher import wire
from fable_exec._launcher.linuxos import pidfd_open, pidfd_send_signal
from fable_exec.errors import BrokerGone
from fable_exec.interpreter import interpreter

__all__ = ["Program", "answer_within", "own_handle"]

_ITS_SOCKET = 3


class Program:
    """Our child, in a session of its own.

    It is waited for and signalled by descriptor: where the host reaps it, its number may be reused.

    Args:
        arguments: options of this interpreter, isolated from the host's environment, the program's file and what it is told; it
            gets the number of its socket as last argument.
        its_socket: copied for it, the only thing of ours that it has.

    Raises:
        OSError: it could not be started.
    """

    def __init__(self, arguments: Sequence[str], its_socket: int) -> None:
        self.pid = pid = _spawn(arguments, its_socket)
        try:
            self._handle = pidfd_open(pid)
        except ProcessLookupError:
            self._handle = -1  # gone and reaped already
        except OSError:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            raise

    def wait(self, seconds: float) -> bool:
        """Reap it within `seconds`; True when it is gone, also when somebody else reaped it."""
        if self._handle >= 0:
            waiting = select.poll()
            waiting.register(self._handle, select.POLLIN)
            if not waiting.poll(int(seconds * 1000)):
                return False
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        return True

    def kill(self) -> None:
        """SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            pidfd_send_signal(self._handle, signal.SIGKILL)

    def end(self, seconds: float) -> None:
        """Wait so long for its end, which somebody else has seen to; kill it where that does not come; let go of it."""
        if not self.wait(seconds):
            self.kill()
            self.wait(seconds)
        self.close()

    def close(self) -> None:
        """Let go of the descriptor. Idempotent."""
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            os.close(handle)


def _spawn(arguments: Sequence[str], its_socket: int) -> int:
    python = interpreter()
    argv = [python, "-I", "-X", "utf8", *arguments, str(_ITS_SOCKET)]
    # The socket first: in a host with closed standard streams it has one of their numbers.
    actions = [
        (os.POSIX_SPAWN_DUP2, its_socket, _ITS_SOCKET),
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    # Where the interpreter's own library lies; commands get an environment of their own.
    needed = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return os.posix_spawn(python, argv, needed, file_actions=actions, setsid=True)


def answer_within(channel: socket.socket, seconds: float, who: str) -> Any:
    """What a program says next on its `channel`; descriptors that come with it are not asked for.

    Raises:
        BrokerGone: it said nothing in that time, or ended; the text names `who`.
    """
    waiting = select.poll()
    waiting.register(channel.fileno(), select.POLLIN)
    if not waiting.poll(int(seconds * 1000)):
        raise BrokerGone(f"{who} did not answer within {seconds:g} s")
    try:
        return wire.receive(channel)[0]
    except wire.PeerGone as error:
        raise BrokerGone(f"{who} ended before it answered") from error


def own_handle() -> list[int]:
    """A descriptor of this process, by which a program sees its death; nothing where the kernel has none."""
    try:
        return [pidfd_open(os.getpid())]
    except OSError:
        return []

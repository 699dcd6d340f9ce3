"""One command under a deadline for a host at the other end of a socket: one request, one answer. The end of the host ends it."""

from __future__ import annotations

import contextlib
import os
import select

from . import kernel, wire
from .deadline import Deadline, Terms
from .spawn import SpawnFailed, Streams


class Line:
    """A descriptor that becomes readable when its other end goes away, and for nothing else: that stops the command."""

    period_seconds = None

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def asked(self) -> bool:
        waiting = select.poll()
        waiting.register(self.descriptor, select.POLLIN)
        return bool(waiting.poll(0))


def serve(channel: int) -> None:
    """Run one command for the host at the other end of the socket `channel`, and tell it what became of it.

    The request comes with the command's three streams and, where there is one, a descriptor of the host's process.
    """
    kernel.close_all_but(channel)
    os.set_inheritable(channel, False)
    host = wire.adopt(channel)
    request, (*streams, handle) = wire.receive(host)
    stops = [Line(channel), Line(handle)]
    try:
        if request["directory"] is not None:
            _enter(request["directory"])
        ended = Deadline(Terms(*request["terms"]), Streams(*streams), stops).run(request["argv"], request["environment"])
        answer = ended._asdict()
    except SpawnFailed as failure:
        answer = {"failed": failure.stage, "errno": failure.number, "what": failure.what}
    with contextlib.suppress(wire.PeerGone):
        wire.send(host, answer)


def _enter(directory: str) -> None:
    try:
        os.chdir(directory)
    except OSError as error:
        raise SpawnFailed("cwd", error.errno or 0, directory) from error

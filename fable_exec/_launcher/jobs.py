"""One command in a launcher's books, and how many of them there is room for. No loop, no process."""

from __future__ import annotations

import errno
import os
import resource

from . import wire
from .pins import Refused
from .places import Place
from .spawn import Streams
from .typed import Any
from .watching import Watch

_DESCRIPTORS_PER_JOB = 8
_DESCRIPTORS_ELSE = 64


class Job:
    """One command: the request, its descriptors, and how far it has come."""

    def __init__(self, request: dict[str, Any], descriptors: list[int], null: int) -> None:
        channel, *self._input, stdout, stderr = descriptors
        self._outputs = [stdout, stderr]
        self.request = request
        self.channel = wire.adopt(channel)
        self.streams = Streams(*(self._input or [null]), *self._outputs)
        self.place: Place | None = None
        self.leader = 0
        self.leader_handle = -1
        self.exit: dict[str, Any] = {}
        self.reason: str | None = None
        self.unpinned: Refused | None = None
        self.ending = False
        self.survivors: list[Any] = []
        self.due_at: float | None = None
        self.watch: Watch | None = None
        self.warned = False

    @property
    def look_at(self) -> float | None:
        """When its tree is to be looked at next; None when nobody asks, or its end is settled."""
        return None if self.watch is None or self.ending or self.exit else self.watch.due_at

    def close_input(self) -> None:
        """Drop our copy, so that whoever writes learns when the command reads no more. Idempotent."""
        while self._input:
            os.close(self._input.pop())

    def close_outputs(self) -> None:
        """Drop our copies: from now on the host sees the end of a stream when nobody else has it. Idempotent."""
        while self._outputs:
            os.close(self._outputs.pop())


def room_for_jobs() -> int:
    """How many jobs the descriptor limit lets this process hold; running into it would lose requests."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _DESCRIPTORS_PER_JOB * _DESCRIPTORS_ELSE
    return max(1, (soft - _DESCRIPTORS_ELSE) // _DESCRIPTORS_PER_JOB)


def refuse(descriptors: list[int]) -> None:
    """Answer a request that lost some of its descriptors, if the first one, its channel, arrived."""
    for descriptor in descriptors[1:]:
        os.close(descriptor)
    if descriptors:
        with wire.adopt(descriptors[0]) as channel:
            try:
                wire.send(channel, {"failed": "descriptors", "errno": errno.EMFILE, "what": "the launcher"})
            except wire.PeerGone:
                pass

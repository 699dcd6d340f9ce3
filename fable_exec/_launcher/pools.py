"""Where a launcher gets its places from: one class a launch mode, the same four verbs.

`capacity` is how many jobs a launcher may hold at once; `descriptor` is readable when `receive` has something to take in.
"""

from __future__ import annotations

import os
import socket
from typing import Any, Protocol

from . import wire
from .places import FreshNamespace, Place, Slot, Subreaper
from .spawn import SpawnFailed

MAX_IN_FLIGHT = 256
_MAX_IDLE_SLOTS = 8
_MAX_ORDERED = 32
"""Slots asked for and not yet there: neither side may fill the other's socket, or both would wait."""


class PlacePool(Protocol):
    """See the module."""

    capacity: int
    descriptor: int

    def take(self, wanted: int) -> Place | None:
        """A free place; None means that as many as `wanted` are on their way. Raises SpawnFailed when none can be had."""

    def receive(self) -> None:
        """Take in what made `descriptor` readable. Raises PeerGone when the other side is gone."""

    def give_back(self, place: Place) -> None:
        """The place is proved empty and may serve again."""

    def discard(self, place: Place) -> None:
        """The place is not proved empty and must never serve again."""


class SlotPool:
    """Slots that the stager clones ahead and on demand."""

    capacity = MAX_IN_FLIGHT

    def __init__(self, stager: socket.socket, ahead: int) -> None:
        self._stager = stager
        self._idle: list[Slot] = []
        self._ordered = 0
        self._failure: SpawnFailed | None = None
        self.descriptor = stager.fileno()
        for _ in range(ahead):
            self._order()

    def take(self, wanted: int) -> Slot | None:
        while self._idle:
            slot = self._idle.pop()
            if slot.usable():
                return slot
            slot.close()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        while self._ordered < min(wanted, _MAX_ORDERED):
            self._order()
        return None

    def receive(self) -> None:
        message, descriptors = wire.receive(self._stager)
        self._ordered -= 1
        if message["slot"] == 0:
            self._failure = SpawnFailed(message["step"], message["errno"], "a new slot")
            return
        self._idle.append(Slot(socket.socket(fileno=descriptors[0]), *descriptors[1:]))

    def give_back(self, place: Place) -> None:
        assert isinstance(place, Slot)
        if len(self._idle) < _MAX_IDLE_SLOTS:
            self._idle.append(place)
        else:
            place.close()

    def discard(self, place: Place) -> None:
        assert isinstance(place, Slot)
        place.close()

    def _order(self) -> None:
        wire.send(self._stager, "slot")
        self._ordered += 1


class NamespacePool:
    """A fresh namespace whenever one is asked for."""

    capacity = MAX_IN_FLIGHT

    def __init__(self, stager: socket.socket, home: int) -> None:
        self._stager = stager
        self._home = home
        self.descriptor = stager.fileno()

    def take(self, wanted: int) -> Place:
        return FreshNamespace(self._home)

    def receive(self) -> None:
        wire.receive(self._stager)

    def give_back(self, place: Place) -> None:
        """Nothing to keep: the namespace ended with its command."""

    def discard(self, place: Place) -> None:
        """Nothing to keep."""


class WorkerPool:
    """This very process, for one job at a time; it tells the zygote whether it is busy, so that there is always a free worker."""

    capacity = 1

    def __init__(self, alive: int, state: socket.socket) -> None:
        self._place = Subreaper()
        self._state = state
        self.descriptor = alive

    def take(self, wanted: int) -> Place:
        self._say("busy")
        return self._place

    def receive(self) -> None:
        """The zygote is gone, and with it whoever would replace this worker."""
        raise wire.PeerGone

    def give_back(self, place: Place) -> None:
        self._say("free")

    def discard(self, place: Place) -> None:
        """What could not be ended must not be mistaken for the next command's: leave it to the zygote and go."""
        os._exit(1)

    def _say(self, word: str) -> None:
        wire.send(self._state, word)


def pool_for(plan: dict[str, Any], stager: socket.socket, home: int) -> PlacePool:
    """The pool of a launcher that has namespaces of its own."""
    if plan["mode"] == "slots":
        return SlotPool(stager, plan["slots_ahead"])
    return NamespacePool(stager, home)

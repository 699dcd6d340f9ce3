"""Where a launcher gets its places from: one class a launch mode, the same four verbs.

`capacity` is how many jobs a launcher may hold at once; `descriptor` is readable when `receive` has something to take in.
"""

from __future__ import annotations

import os
import select
import socket

from . import wire
from .leaders import Leaders, own_children
from .pins import Refused
from .places import FreshNamespace, NextNamespace, Place, Slot, Subreaper
from .refusals import Told
from .spawn import SpawnFailed
from .typed import Any, Protocol
from .watching import ProcessFiles

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

    def pin(self, paths: list[str]) -> Refused | None:
        """Make `paths` read-only besides those that already are, and put back what was lost; returns what cannot be."""

    def observe(self, listener: int) -> None:
        """Hand the listener of our filter, which is no longer the caller's, to whoever answers it."""

    def refusals(self, place: Place) -> dict[str, Any] | None:
        """What the observer noted of the command that was in `place`; None when that is nothing, or nobody observes."""


class _StagedPool:
    """What both pools with a stager have in common: its answers, and the pins that it keeps."""

    capacity = MAX_IN_FLIGHT

    def __init__(self, stager: socket.socket) -> None:
        self._stager = stager
        self.descriptor = stager.fileno()
        self._refused: Refused | None = None
        self._awaited = False
        # The base's list of mounts reports every change once: a pin that was lost shows there.
        self._mounts = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._changes = select.poll()
        self._changes.register(self._mounts, select.POLLPRI)
        self._told: Told | None = None

    def receive(self) -> None:
        message, descriptors = wire.receive(self._stager)
        if "pins" in message:
            self._refused = None if message["pins"] is None else Refused(*message["pins"])
            self._awaited = False
        elif "slot" in message:
            self._slot_arrived(message, descriptors)
        elif self._told is not None:
            self._told.hear(message)

    def observe(self, listener: int) -> None:
        wire.send(self._stager, "observe", (listener,))
        os.close(listener)
        self._told = Told(self._stager)

    def refusals(self, place: Place) -> dict[str, Any] | None:
        return None if self._told is None else self._told.take(place.identity, self.receive)

    def pin(self, paths: list[str]) -> Refused | None:
        # What failed once is tried again: the paths are the stager's by then, and no change of mounts need tell of them.
        if paths or self._refused or self._changes.poll(0):
            self._awaited = True
            wire.send(self._stager, {"pins": paths})
            while self._awaited:
                self.receive()
        return self._refused

    def _slot_arrived(self, message: dict[str, Any], descriptors: list[int]) -> None:
        """Only a pool that orders slots gets any."""


class SlotPool(_StagedPool):
    """Slots that the stager clones ahead and on demand."""

    def __init__(self, stager: socket.socket, ahead: int, *, watched: bool) -> None:
        super().__init__(stager)
        self._watched = watched
        self._leaders = Leaders(own_children())
        self._idle: list[Slot] = []
        self._ordered = 0
        self._failure: SpawnFailed | None = None
        for _ in range(ahead):
            self._order()

    def take(self, wanted: int) -> Slot | None:
        if self._idle:
            return self._idle.pop()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        while self._ordered < min(wanted, _MAX_ORDERED):
            self._order()
        return None

    def _slot_arrived(self, message: dict[str, Any], descriptors: list[int]) -> None:
        self._ordered -= 1
        if message["slot"] == 0:
            self._failure = SpawnFailed(message["step"], message["errno"], "a new slot")
            return
        self._idle.append(Slot(wire.adopt(descriptors[0]), *descriptors[1:], leaders=self._leaders, watched=self._watched))

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


class NamespacePool(_StagedPool):
    """A fresh namespace whenever one is asked for."""

    def __init__(self, stager: socket.socket, home: int, *, watched: bool) -> None:
        super().__init__(stager)
        self._namespace = NextNamespace(home)
        self._files = ProcessFiles() if watched else None

    def take(self, wanted: int) -> Place:
        return FreshNamespace(self._namespace, self._files, observed=self._told is not None)

    def give_back(self, place: Place) -> None:
        """Nothing to keep: the namespace ended with its command."""

    def discard(self, place: Place) -> None:
        """Nothing to keep."""


class WorkerPool:
    """This very process, for one job at a time; it tells the zygote whether it is busy, so that there is always a free worker."""

    capacity = 1

    def __init__(self, alive: int, state: socket.socket, *, watched: bool) -> None:
        self._place = Subreaper(ProcessFiles() if watched else None)
        self._state = state
        self._told: Told | None = None
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

    def pin(self, paths: list[str]) -> Refused | None:
        """Without mounts nothing can be pinned; the plan says so."""
        return None

    def observe(self, listener: int) -> None:
        wire.send(self._state, "observe", (listener,))
        os.close(listener)
        self._told = Told(self._state)

    def refusals(self, place: Place) -> dict[str, Any] | None:
        return None if self._told is None else self._told.take(place.identity, self._hear)

    def _hear(self) -> None:
        assert self._told is not None
        self._told.hear(wire.receive(self._state)[0])

    def _say(self, word: str) -> None:
        wire.send(self._state, word)


def pool_for(plan: dict[str, Any], stager: socket.socket, home: int) -> PlacePool:
    """The pool of a launcher that has namespaces of its own."""
    watched = bool(plan["watched_limits"])
    if plan["mode"] == "slots":
        return SlotPool(stager, plan["slots_ahead"], watched=watched)
    return NamespacePool(stager, home, watched=watched)

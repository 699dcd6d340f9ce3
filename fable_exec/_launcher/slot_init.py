"""The first process of a slot: says what is left in there, ends it, and outlives one command after another."""

from __future__ import annotations

import os
import signal
import socket

from . import wire
from .ending import signal_everybody
from .proctree import Member, list_members

_SIGKILL, _SIGSTOP = int(signal.SIGKILL), int(signal.SIGSTOP)


def serve_slot(channel: socket.socket) -> None:
    """The life of a slot's init: answer "ask" and "end" until the channel closes. Runs as process 1 of the slot.

    With SIGCHLD ignored the kernel reaps; a wait that answers "no child" then proves that nothing descends from the init any
    more. That nothing else is left is proved by a signal that finds nobody.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        try:
            word, _ = wire.receive(channel)
            members = [] if word == "ask" else _end_everybody(without_leader=word == "end")
            empty = _no_child(os.WNOHANG) and _is_alone() if word == "ask" else _no_child(0)
            wire.send(channel, {"empty": empty, "alone": _is_alone(), "members": members})
        except wire.PeerGone:
            return


def _end_everybody(*, without_leader: bool) -> list[Member]:
    """Kill all but the init; who was there."""
    # At rest a tree can be listed although it hops from process to process, and leaves the processor to the listing.
    signal_everybody(_SIGSTOP)
    members = _members_of_slot(without_leader=without_leader)
    signal_everybody(_SIGKILL)
    return members


def _is_alone() -> bool:
    """Whether the init is the only process of its slot; a zombie counts until it is reaped."""
    return not signal_everybody(0)


def _members_of_slot(*, without_leader: bool) -> list[Member]:
    # The parent of the leader and of its siblings is outside the namespace, and shows as 0. The leader came first.
    members = [member for member in list_members() if member.pid != 1]
    leader = min((member.pid for member in members if member.parent == 0), default=0) if without_leader else 0
    return [member for member in members if member.pid != leader]


def _no_child(options: int) -> bool:
    """Whether this process has no child. Without WNOHANG it waits until that is so."""
    try:
        while os.waitpid(-1, options)[0] != 0:
            continue
    except ChildProcessError:
        return True
    return False

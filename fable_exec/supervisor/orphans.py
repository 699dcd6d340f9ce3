"""End what a dead keeper left of its job, within a bound: what is proved to be of it, and nobody else.

Each process is held by a descriptor before it is looked at. Looking through /proc finds members and proves nothing: what forks
faster than it is looked for is not seen, and a process that is just being executed shows no environment.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from fable_exec._launcher import proctree
from fable_exec._sys import processes
from fable_exec.errors import IdentityLost, SignalRefused
from fable_exec.executions.documents import Emptiness
from fable_exec.keeper.leaf import leaves_of
from fable_exec.procident import ProcessHandle, ProcessIdentity, TokenKind

__all__ = ["end_orphans"]

_NAMESPACE_SECONDS = 2.0
"""With a namespace the kernel is ending the job already, or has."""
_KILL_SECONDS = 2.0
_LOOKS = 2
"""So many looks one after the other must find nobody."""
_PAUSE_SECONDS = 0.01
_BY_NAMESPACE = "pidns"


def end_orphans(document: Mapping[str, Any]) -> Emptiness | None:
    """End the job of an execution that nobody keeps.

    Args:
        document: its state; the caller holds the lock of the keeper's life.

    Returns:
        What was found; its proof is "scan" or "none", never more. None where it cannot be told whether the recorded leader lives:
        then nothing was signalled.
    """
    members = document["runner_identity"]
    if members is None:
        _end_control_groups(document)
        return Emptiness()  # it never passed its gate, which its keeper's death has closed
    recorded = ProcessIdentity.from_members(members)
    with ExitStack() as held:
        leader = None
        try:
            leader = held.enter_context(ProcessHandle.reopen(recorded))
        except IdentityLost as lost:
            if not lost.gone:
                return None
        return _ended(document, recorded, leader)


def _ended(document: Mapping[str, Any], recorded: ProcessIdentity, leader: ProcessHandle | None) -> Emptiness:
    in_namespace = document["containment"] == _BY_NAMESPACE
    was_alive = leader is not None and not leader.wait(_NAMESPACE_SECONDS if in_namespace else 0)
    _end_control_groups(document)
    left = [] if leader is None or _end_leader(leader, document) else [[leader.pid, _name(leader)]]
    if in_namespace:
        return Emptiness(found=left, remaining=left, kill_sent=was_alive)
    search = _Search(recorded, f"FABLE_EXEC_ID={document['execution_id']}".encode())
    search.run()
    return Emptiness(
        proof="scan" if search.is_clean and not left else "none",
        found=left + search.found,
        remaining=left + search.remaining,
        kill_sent=was_alive or bool(search.found),
    )


def _end_control_groups(document: Mapping[str, Any]) -> None:
    """The kernel ends all that is still in a group of this job, and the empty group is removed."""
    for leaf in leaves_of(document["execution_id"]):
        leaf.end(_KILL_SECONDS)


def _end_leader(leader: ProcessHandle, document: Mapping[str, Any]) -> bool:
    """Whether it has ended, after a SIGKILL to its group if need be."""
    return not leader.is_alive() or (_kill_leader(leader, document) and leader.wait(_KILL_SECONDS))


def _kill_leader(leader: ProcessHandle, document: Mapping[str, Any]) -> bool:
    """SIGKILL to the group that it leads, else to it alone; whether one was sent."""
    try:
        leader.send_signal_to_group(signal.SIGKILL, recorded_pgid=document["runner_pgid"], recorded_sid=document["runner_sid"])
        return True
    except (SignalRefused, IdentityLost, PermissionError):
        return _kill(leader)


def _kill(process: ProcessHandle) -> bool:
    try:
        process.send_signal(signal.SIGKILL)
    except (SignalRefused, IdentityLost, PermissionError):
        return False
    return True


def _name(process: ProcessHandle) -> str:
    member = proctree.read_member(process.pid)
    return "?" if member is None else member.name


class _Search:
    """Members by a variable that the job was given, killed where they are found.

    Attributes:
        found: [pid, name] of everyone who was. remaining: of those who did not end.
        is_clean: nobody was seen any more.
    """

    def __init__(self, leader: ProcessIdentity, variable: bytes) -> None:
        self._leader, self._variable = leader, variable
        self.found: list[list[Any]] = []
        self.remaining: list[list[Any]] = []
        self.is_clean = False

    def run(self) -> None:
        """Until nobody was seen several times, or the time is over. Nothing where /proc does not show our numbers."""
        give_up_at = time.monotonic() + _KILL_SECONDS
        empty_looks = 0
        while _shows_our_numbers() and not self.is_clean and time.monotonic() < give_up_at:
            empty_looks = 0 if self._look(give_up_at) else empty_looks + 1
            self.is_clean = empty_looks >= _LOOKS
            time.sleep(_PAUSE_SECONDS)

    def _look(self, give_up_at: float) -> bool:
        """Kill all that are seen now, and wait for their ends; whether anybody was seen."""
        with ExitStack() as held:
            members = [(held.enter_context(member), [member.pid, _name(member)]) for member in self._members()]
            for member, _ in members:
                _kill(member)
            self.remaining = [told for member, told in members if not member.wait(give_up_at - time.monotonic())]
        self.found += [told for _, told in members if told not in self.found]
        return bool(members)

    def _members(self) -> Iterator[ProcessHandle]:
        for number in processes.numbers():
            try:
                process = ProcessHandle.of(number)
            except (IdentityLost, OSError):
                continue
            if self._is_member(process):
                yield process
            else:
                process.close()

    def _is_member(self, process: ProcessHandle) -> bool:
        """Asked of a process that is held; that it lives still says that what was read was its own."""
        try:
            return (
                not _is_older(process.identity, self._leader)
                and processes.was_started_with(process.pid, self._variable)
                and process.is_alive()
            )
        except OSError:
            return False


def _is_older(one: ProcessIdentity, other: ProcessIdentity) -> bool:
    """Whether it is not known to be born in the other's clock tick or later: then its environment is none of our business."""
    if one.birth is None or other.birth is None or one.time_namespace != other.time_namespace:
        return True
    are_ticks = one.birth.kind is TokenKind.PROC and other.birth.kind is TokenKind.PROC
    return not are_ticks or int(one.birth.moment) < int(other.birth.moment)


def _shows_our_numbers() -> bool:
    try:
        return processes.own_number_in_view() == os.getpid()
    except OSError:
        return False

"""Where one command runs, and how everything it started is ended and proved gone.

Three kinds, strongest first: a *slot* (reusable PID namespace with an init of its own), a fresh PID *namespace* whose init is the
command, and *plain* (this process is the subreaper). All answer the same three questions: start it, what is left, end it. Timing
and messages to the host are the launcher's affair.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from . import kernel, wire
from .linuxos import has_children
from .proctree import Member, children, list_members, members_below

_SIGKILL = int(signal.SIGKILL)
_PROOF_SECONDS = 2.0


class Report(NamedTuple):
    """What a place knows: whether it is proved empty, and who was alive besides the leader when it looked.

    Not `settled` means that a later question is still unanswered, so that `empty` is yesterday's news.
    """

    empty: bool
    members: list[Member]
    settled: bool = True


class Place(Protocol):
    """One command's home. `descriptor` is readable when an answer waits in `answer`; -1 where answers come at once."""

    descriptor: int

    def start(self, execute: Callable[[], int]) -> int:
        """Run `execute`, which starts the leader, inside this place; returns the leader's process id."""

    def ask(self) -> Report | None:
        """What is left, after the leader was reaped; None means the answer comes later."""

    def end(self) -> Report | None:
        """Kill everything, the leader included; None means the answer comes later."""

    def answer(self) -> Report:
        """The answer that made `descriptor` readable."""

    def reap_leader(self, pid: int) -> tuple[int, tuple[float, float, int]]:
        """The exited leader's wait status and (user seconds, system seconds, peak resident KiB)."""


def wait_usage(pid: int, options: int = 0) -> tuple[int, int, tuple[float, float, int]]:
    """wait4(2) with the three figures that are reported."""
    found, status, usage = os.wait4(pid, options)
    return found, status, (usage.ru_utime, usage.ru_stime, usage.ru_maxrss)


class Slot:
    """A prepared PID and mount namespace, entered by descriptor. Its init answers on `channel` and outlives the commands."""

    def __init__(self, channel: socket.socket, init: int, mount_namespace: int, pid_namespace: int, home: int) -> None:
        self.channel, self.init = channel, init
        self.descriptor = channel.fileno()
        self._mount_namespace, self._pid_namespace, self._home = mount_namespace, pid_namespace, home
        self._unanswered = 0

    def start(self, execute: Callable[[], int]) -> int:
        kernel.setns(self._mount_namespace, kernel.CLONE_NEWNS)
        kernel.setns(self._pid_namespace, kernel.CLONE_NEWPID)
        try:
            return execute()
        finally:
            kernel.setns(self._home, kernel.CLONE_NEWPID)

    def ask(self) -> None:
        self._say("ask")

    def end(self) -> None:
        self._say("end")

    def answer(self) -> Report:
        message, _ = wire.receive(self.channel)
        self._unanswered -= 1
        members = [Member(*member) for member in message["members"]]
        return Report(message["empty"], members, settled=self._unanswered == 0)

    def reap_leader(self, pid: int) -> tuple[int, tuple[float, float, int]]:
        return wait_usage(pid)[1:]

    def close(self) -> None:
        """Give the namespaces back; the init sees the end of its channel and exits, which ends whatever is in there."""
        self.channel.close()
        os.close(self._mount_namespace)
        os.close(self._pid_namespace)

    def _say(self, word: str) -> None:
        wire.send(self.channel, word)
        self._unanswered += 1


class FreshNamespace:
    """A PID namespace for one command, which is its init: when it ends, the kernel ends the rest before the wait returns."""

    descriptor = -1

    def __init__(self, home: int) -> None:
        self._home = home
        self._leader = 0

    def start(self, execute: Callable[[], int]) -> int:
        kernel.unshare(kernel.CLONE_NEWPID)
        try:
            self._leader = execute()
        finally:
            kernel.setns(self._home, kernel.CLONE_NEWPID)
        return self._leader

    def ask(self) -> Report:
        return Report(empty=True, members=[])

    def end(self) -> Report:
        if self._leader:
            os.kill(self._leader, _SIGKILL)
        return Report(empty=True, members=[])

    def answer(self) -> Report:
        raise AssertionError("a fresh namespace answers at once")

    def reap_leader(self, pid: int) -> tuple[int, tuple[float, float, int]]:
        self._leader = 0
        return wait_usage(pid)[1:]


class Subreaper:
    """This process as the parent of last resort of one command at a time: empty when wait answers "no child"."""

    descriptor = -1

    def __init__(self) -> None:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        self._leader = 0
        self._leader_result: tuple[int, tuple[float, float, int]] | None = None

    def start(self, execute: Callable[[], int]) -> int:
        self._leader_result = None
        self._leader = execute()
        return self._leader

    def ask(self) -> Report:
        self._reap()
        members = members_below(os.getpid())
        return Report(empty=not has_children(), members=[member for member in members if member.pid != self._leader])

    def end(self) -> Report:
        members = self.ask().members
        give_up_at = time.monotonic() + _PROOF_SECONDS
        pause = 0.0
        while has_children() and time.monotonic() < give_up_at:
            self._kill_children()
            self._reap()
            # Killed children need a moment to die; waiting longer each time keeps a stuck one from burning the processor.
            select.select([], [], [], pause)
            pause = min(0.01, pause + 0.0005)
        return Report(empty=not has_children(), members=members)

    def answer(self) -> Report:
        raise AssertionError("a subreaper answers at once")

    def reap_leader(self, pid: int) -> tuple[int, tuple[float, float, int]]:
        result = self._leader_result or wait_usage(pid)[1:]
        self._leader = 0
        return result

    def _kill_children(self) -> None:
        for pid in children(os.getpid()):
            try:
                os.kill(pid, _SIGKILL)
            except ProcessLookupError:
                continue

    def _reap(self) -> None:
        """Collect every zombie; the leader's status is kept for `reap_leader`."""
        while True:
            try:
                pid, status, usage = wait_usage(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._leader:
                self._leader_result = (status, usage)



def serve_slot(channel: socket.socket) -> None:
    """The life of a slot's init: answer "ask" and "end" until the channel closes. Runs as process 1 of the slot.

    With SIGCHLD ignored the kernel reaps; a wait that answers "no child" then proves that nothing but the init is left.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        try:
            word, _ = wire.receive(channel)
            if word == "ask" and _no_child(os.WNOHANG):
                report = Report(empty=True, members=[])
            else:
                report = _look_or_end(ending=word == "end")
            wire.send(channel, {"empty": report.empty, "members": report.members})
        except wire.PeerGone:
            return


def _look_or_end(*, ending: bool) -> Report:
    # The leader's parent is outside the namespace: it is the one member with parent 0.
    members = [member for member in list_members() if member.pid != 1 and member.parent != 0]
    if ending:
        try:
            os.kill(-1, _SIGKILL)
        except ProcessLookupError:
            pass
        return Report(empty=_no_child(0), members=members)
    return Report(empty=False, members=members)


def _no_child(options: int) -> bool:
    """Whether this process has no child. Without WNOHANG it waits until that is so."""
    try:
        while os.waitpid(-1, options)[0] != 0:
            continue
    except ChildProcessError:
        return True
    return False

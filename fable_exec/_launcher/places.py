"""Where one command runs, and how everything it started is ended and proved gone.

Three kinds, strongest first: a *slot* (reusable PID namespace with an init of its own), a fresh PID *namespace* whose init is the
command, and *plain* (this process is the subreaper). All answer the same three questions: start it, what is left, end it. Timing
and messages to the host are the launcher's affair.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable
from itertools import chain

from . import kernel, kernel_confine, wire
from .ending import end_children, stop_children
from .leaders import Leaders
from .linuxos import has_children
from .proctree import Member, members_below, pids_below
from .reaping import Usage, child_bell, ended_children, heard, reap_exited
from .spawn import SpawnFailed
from .typed import NamedTuple, Protocol
from .watching import ProcessFiles

_SIGKILL = int(signal.SIGKILL)
_PROOF_SECONDS = 2.0
_NUMBERS_PAUSES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02)


class PlaceLost(Exception):
    """The place ended by itself: its init was killed, and with it everything inside."""


class Report(NamedTuple):
    """What a place knows: whether it is proved empty, and who was alive besides the leader when it looked.

    Not `settled` means that a later question is still unanswered, so that `empty` is yesterday's news.
    """

    empty: bool
    members: list[Member]
    settled: bool = True


class Place(Protocol):
    """One command's home. `descriptor` is readable when an answer waits in `answer`; -1 where answers come at once.

    Every verb but `start` and `reap_leader` raises PlaceLost.
    """

    descriptor: int

    def usable(self) -> bool:
        """Whether a command can still be started here."""

    def start(self, execute: Callable[[], int]) -> int:
        """Run `execute`, which starts the leader, inside this place; returns the leader's process id."""

    def ask(self) -> Report | None:
        """What is left, after the leader was reaped; None means the answer comes later."""

    def end(self) -> Report | None:
        """Kill everything, the leader included; None means the answer comes later."""

    def answer(self) -> Report | None:
        """What made `descriptor` readable; None when it was no answer."""

    def reap_leader(self, pid: int) -> tuple[int, Usage] | None:
        """The exited leader's wait status and usage; None while a tracer, a member of its own tree, holds them back."""

    def processes(self) -> tuple[ProcessFiles, Iterable[int]]:
        """Everything that runs in here, and the /proc that has these numbers; only for places made `watched`."""

    def identity(self) -> int:
        """The number by which the observer of refusals tells the command in here from others."""


class Slot:
    """A prepared PID and mount namespace, entered by descriptor. Its init answers on `channel` and outlives the commands.

    Args:
        children: the init's list of children in /proc. Once the leader is reaped every other process in there descends from one
            of them or from a sibling of the leader; so an empty list, which the kernel reads under its lock on the process tree,
            and no sibling are the proof that nothing is left. -1 where the kernel has no such list: the init is asked instead.
        leaders: of this launcher.
        watched: whether `processes` will be asked for.
    """

    _entered: Slot | None = None
    """The one that this process is in: one command after another comes to the same."""

    def __init__(
        self,
        channel: socket.socket,
        mount_namespace: int,
        pid_namespace: int,
        children: int = -1,
        *,
        leaders: Leaders,
        watched: bool = False,
    ) -> None:
        self.channel = channel
        self.descriptor = channel.fileno()
        self._children, self._mount_namespace, self._pid_namespace = children, mount_namespace, pid_namespace
        self._leaders, self._leader = leaders, 0
        self._unanswered: list[str] = []
        self._watched = watched
        self._files: ProcessFiles | None = None

    def usable(self) -> bool:
        return wire.peer_is_alive(self.channel)

    def start(self, execute: Callable[[], int]) -> int:
        if Slot._entered is not self:
            self._enter()
        if self._watched and self._files is None:
            self._files = ProcessFiles()
        self._leader = _when_numbers_are_free(execute) if self._watched else execute()
        self._leaders.note(self._leader)
        return self._leader

    def processes(self) -> tuple[ProcessFiles, Iterable[int]]:
        assert self._files is not None
        return self._files, self._files.everyone()

    def _enter(self) -> None:
        Slot._entered = None
        kernel_confine.setns(self._mount_namespace, kernel.CLONE_NEWNS)
        kernel_confine.setns(self._pid_namespace, kernel.CLONE_NEWPID)
        Slot._entered = self

    def ask(self) -> Report | None:
        if not self._unanswered and self._has_no_children() and not self._leaders.have_siblings():
            if not wire.peer_is_alive(self.channel):
                raise PlaceLost
            return Report(empty=True, members=[])
        self._say("ask")
        return None

    def end(self) -> None:
        self._say("end" if self._leader else "end the rest")

    def answer(self) -> Report:
        try:
            message, _ = wire.receive(self.channel)
        except wire.PeerGone as error:
            raise PlaceLost from error
        # Who was there when an end came had to be ended; who was there at a look before may have ended by itself.
        had_to_be_ended = self._unanswered.pop(0) != "ask"
        members = [Member(*member) for member in message["members"]] if had_to_be_ended else []
        # An unreaped leader is in there still; the init is asked again once it is reaped.
        empty = message["empty"] and (message["alone"] or self._leader != 0)
        if not empty:
            self._leaders.have_siblings()  # the dead among them wait to be reaped by this process
        return Report(empty, members, settled=not self._unanswered)

    def reap_leader(self, pid: int) -> tuple[int, Usage] | None:
        result = reap_exited(pid)
        if result is not None:
            self._leaders.forget(pid)
            self._leader = 0
        return result

    def identity(self) -> int:
        return os.fstat(self._pid_namespace).st_ino

    def close(self) -> None:
        """Give the namespaces back; the init sees the end of its channel and exits, which ends whatever is in there."""
        self.channel.close()
        for descriptor in (self._mount_namespace, self._pid_namespace, self._children):
            if descriptor >= 0:
                os.close(descriptor)
        if self._files is not None:
            self._files.close()

    def _has_no_children(self) -> bool:
        try:
            return os.pread(self._children, 1, 0) == b""
        except OSError:
            return False  # ask the init itself

    def _say(self, word: str) -> None:
        try:
            wire.send(self.channel, word)
        except wire.PeerGone as error:
            raise PlaceLost from error
        self._unanswered.append(word)


class NextNamespace:
    """The PID namespace that the next child of this process is to be the init of. It is made while the child before it runs.

    Args:
        home: the namespace of this process itself.
    """

    def __init__(self, home: int) -> None:
        self._home = home
        self._is_made = False

    def enter(self) -> None:
        """From now until `leave` the first child is the init of a namespace. Raises OSError."""
        if not self._is_made:
            kernel_confine.unshare(kernel.CLONE_NEWPID)

    def leave(self) -> None:
        """Whatever was made in there: children belong to the next namespace, or to ours as long as there is none."""
        self._is_made = False
        kernel_confine.setns(self._home, kernel.CLONE_NEWPID)
        with contextlib.suppress(OSError):  # whoever enters tries again, and is told
            kernel_confine.unshare(kernel.CLONE_NEWPID)
            self._is_made = True


class FreshNamespace:
    """A PID namespace for one command, which is its init: when it ends, the kernel ends the rest before the wait returns."""

    descriptor = -1

    def __init__(self, namespace: NextNamespace, files: ProcessFiles | None = None, *, observed: bool = False) -> None:
        self._namespace = namespace
        self._files = files
        self._observed = observed
        self._identity = 0
        self._leader = 0

    def start(self, execute: Callable[[], int]) -> int:
        self._namespace.enter()
        try:
            self._leader = execute()
            if self._observed:
                # Only now, between its first process and our return, does our /proc know it, were that process dead already.
                self._identity = os.stat("/proc/self/ns/pid_for_children").st_ino
        finally:
            self._namespace.leave()
        return self._leader

    def usable(self) -> bool:
        return True

    def ask(self) -> Report:
        return Report(empty=True, members=[])

    def end(self) -> Report:
        if self._leader:
            os.kill(self._leader, _SIGKILL)
        return Report(empty=True, members=[])

    def answer(self) -> Report:
        raise AssertionError("a fresh namespace answers at once")

    def reap_leader(self, pid: int) -> tuple[int, Usage] | None:
        result = reap_exited(pid)
        if result is not None:
            self._leader = 0
        return result

    def processes(self) -> tuple[ProcessFiles, Iterable[int]]:
        assert self._files is not None
        return self._files, chain((self._leader,), pids_below(self._leader)) if self._leader else ()

    def identity(self) -> int:
        return self._identity


class Subreaper:
    """This process as the parent of last resort of one command at a time: empty when wait answers "no child"."""

    def __init__(self, files: ProcessFiles | None = None) -> None:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        self._files = files
        self.descriptor = child_bell()
        self._leader = 0
        self._leader_result: tuple[int, Usage] | None = None

    def start(self, execute: Callable[[], int]) -> int:
        self._leader_result = None
        self._leader = execute()
        return self._leader

    def usable(self) -> bool:
        return True

    def ask(self) -> Report:
        self._reap()
        members = members_below(os.getpid())
        return Report(empty=not has_children(), members=[member for member in members if member.pid != self._leader])

    def end(self) -> Report:
        stop_children()
        members = self.ask().members
        return Report(empty=end_children(self._reap, _PROOF_SECONDS), members=members)

    def answer(self) -> None:
        """Children died: orphans must not fill the process table while the leader still runs."""
        heard(self.descriptor)
        self._reap()

    def reap_leader(self, pid: int) -> tuple[int, Usage] | None:
        result = self._leader_result or reap_exited(pid)
        if result is not None:
            self._leader = 0
        return result

    def processes(self) -> tuple[ProcessFiles, Iterable[int]]:
        assert self._files is not None
        return self._files, pids_below(os.getpid())

    def identity(self) -> int:
        return 0  # its launcher's listener hears no other command

    def _reap(self) -> None:
        """Collect every zombie; the leader's status is kept for `reap_leader`."""
        for pid, status, usage in ended_children():
            if pid == self._leader:
                self._leader_result = (status, usage)


def _when_numbers_are_free(execute: Callable[[], int]) -> int:
    """`execute()`, tried again for a moment when no process number is free.

    wait(2) answers "no child" a little before the kernel gives back the numbers of those that died (release_task in
    kernel/exit.c), and where pid_max is small the command before may have had them all.
    """
    for pause in _NUMBERS_PAUSES:
        try:
            return execute()
        except SpawnFailed as failure:
            if failure.number != errno.EAGAIN:
                raise
        time.sleep(pause)
    return execute()

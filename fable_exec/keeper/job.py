"""One job as its keeper holds it: the init that is its parent, the leader by a verified handle, its gate and its pipes.

Everything here is a hold or an act; when to do what is for `acting` and `reconciling`. What an init does: _launcher/job_init.py.
"""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from fable_exec._launcher import wire
from fable_exec._launcher.ending import end_children
from fable_exec._launcher.gate import answered, open_gate
from fable_exec._launcher.linuxos import pidfd_send_signal
from fable_exec._launcher.reaping import ended_children
from fable_exec._launcher.spawn import SpawnFailed
from fable_exec._sys import processes
from fable_exec.keeper.leaf import Leaf
from fable_exec.procident import ProcessHandle, ProcessIdentity

__all__ = ["Job", "NotMade", "unmake"]

_MAKE_SECONDS = 20.0
_END_SECONDS = 2.0
_ANSWER_BYTES = 65536
_PROOFS = {"cgroup": "cgroup_empty", "pidns": "pidns_dead", "subreaper": "echild"}


class NotMade(Exception):
    """There is no job: `stage` failed with `number`, about `what`. Nothing of it is left."""

    def __init__(self, stage: str, number: int, what: str) -> None:
        super().__init__(stage, number, what)
        self.stage, self.number, self.what = stage, number, what


class Job:
    """An init, the leader that it makes and that waits at its gate, and our ends of their pipes.

    Attributes:
        channel: messages of the init. init_handle: readable when the init has ended. answer: the gate's pipe, -1 once it is read.
        output: reading end of both streams of the job; not closed here.
        leader: who the leader is; signals to its group go through it.
        unpinned: the kernel refused a pin.
        used_before: user and system seconds of the leader before its program ran.
        orphan_status: wait status of a leader that outlived its init and became our child; None as long as none did.
    """

    def __init__(
        self,
        init: int,
        init_handle: int,
        in_namespace: bool,
        leaf: Leaf | None,
        channel: socket.socket,
        gate: int,
        answer: int,
        output: int,
    ) -> None:
        self.init, self.init_handle, self.channel, self.leaf = init, init_handle, channel, leaf
        self._in_namespace = in_namespace
        self._gate, self.answer, self.output = gate, answer, output
        self.leader: ProcessHandle | None = None
        self.unpinned = False
        self.used_before: tuple[float, float] = (0.0, 0.0)
        self.orphan_status: int | None = None
        self._reaped = False

    @property
    def rung(self) -> str:
        """What holds the job together, by the strongest: docs/reference/supervision.md."""
        return "cgroup" if self.leaf is not None else "pidns" if self._in_namespace else "subreaper"

    def begin(self, pins: Mapping[str, Any]) -> None:
        """Let the init begin, and wait until it has made the leader. Raises NotMade."""
        try:
            wire.send(self.channel, pins)
            message, descriptors = self._receive_within(_MAKE_SECONDS)
        except wire.PeerGone:
            raise NotMade("init", 0, "the init ended while it made the job") from None
        if "failed" in message:
            raise NotMade(message["failed"], message["errno"], message["what"])
        if "leader" not in message:
            raise NotMade("init", 0, "the leader ended while it was made")
        self.used_before = message["used"][0], message["used"][1]
        self.unpinned = message["unpinned"]
        with ExitStack() as held:
            held.callback(os.close, descriptors[0])
            try:
                self.leader = ProcessHandle.of(processes.number_behind(descriptors[0]))
            except OSError as error:  # IdentityLost too: it died at its gate
                raise NotMade("identity", error.errno or 0, str(error)) from None

    def open_gate(self) -> None:
        """Let the leader execute its program; `answer` tells whether it did."""
        open_gate(self._gate)

    def to_hand_over(self) -> tuple[dict[str, Any], int]:
        """For another process with the same init, to hold the job, whose gate is open: values, and the leader's descriptor."""
        assert self.leader is not None
        values = {
            "leader": self.leader.identity.to_members(),
            "weaker": self.leader.weaker,
            "used_before": self.used_before,
            "program_runs": self.answer < 0,
        }
        return values, self.leader.fileno()

    def take_over(self, values: Mapping[str, Any], leader: int) -> None:
        """Hold the job of which `to_hand_over` told, with its descriptor."""
        identity = ProcessIdentity.from_members(values["leader"])
        self.leader = ProcessHandle(identity, leader, tuple(values["weaker"]))
        self.used_before = values["used_before"][0], values["used_before"][1]
        if values["program_runs"]:
            os.close(self.answer)
            self.answer = -1

    def take_answer(self) -> SpawnFailed | None:
        """Why the program does not run, or None when it does. Called once `answer` is readable; waits for its end."""
        pieces = []
        while piece := os.read(self.answer, _ANSWER_BYTES):
            pieces.append(piece)
        os.close(self.answer)
        self.answer = -1
        return answered(b"".join(pieces))

    def ask(self, word: str) -> None:
        """Have the init "look", "terminate" or "kill"; its answer comes on `channel`. Raises PeerGone."""
        wire.send(self.channel, word)

    def receive(self) -> dict[str, Any]:
        """The init's next message. Raises PeerGone."""
        message, descriptors = wire.receive(self.channel)
        for descriptor in descriptors:
            os.close(descriptor)
        found: dict[str, Any] = message
        return found

    def kill_init(self) -> None:
        """SIGKILL to the init, and with it to everything in its namespace."""
        try:
            pidfd_send_signal(self.init_handle, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def end(self) -> str:
        """End the init with all that is left, in a bound, by everything that holds it.

        Returns:
            What proves that nothing is left: cgroup_empty, pidns_dead or echild; empty when something may be.
        """
        try:
            self.channel.shutdown(socket.SHUT_RDWR)  # a keeper and its starter both have it
        except OSError:
            pass  # nobody is at its other end
        self.channel.close()
        is_gone = self.await_init(_END_SECONDS)
        if not is_gone:
            self.kill_init()
            is_gone = self.await_init(_END_SECONDS)
        if not self._in_namespace:
            is_gone = self.adopt_orphans(_END_SECONDS) and is_gone
        if self.leaf is not None and not self.leaf.end(_END_SECONDS):
            return ""
        return _PROOFS[self.rung] if is_gone else ""

    def await_init(self, seconds: float) -> bool:
        """Wait for the init's end, and reap it; False when it lives on. In a namespace that end proves that nothing is left."""
        waiting = select.poll()
        waiting.register(self.init_handle, select.POLLIN)
        if not self._reaped and waiting.poll(int(seconds * 1000)):
            try:
                os.waitpid(self.init, 0)
            except ChildProcessError:
                pass  # for a starter, which is not its parent
            self._reaped = True
        return self._reaped

    def adopt_orphans(self, seconds: float) -> bool:
        """End whatever an init without a namespace left to us, its subreaper; whether wait(2) says that nothing is left."""
        self._reap_orphans()
        return end_children(self._reap_orphans, seconds)

    def _reap_orphans(self) -> None:
        for pid, status, _ in ended_children():
            if self.leader is not None and pid == self.leader.pid:
                self.orphan_status = status
            self._reaped = self._reaped or pid == self.init

    def close(self) -> None:
        """Give every descriptor back but `output`. A gate that was not opened is closed, and ends its leader."""
        self.channel.close()
        for descriptor in (self.init_handle, self._gate, self.answer):
            if descriptor >= 0:
                os.close(descriptor)
        if self.leader is not None:
            self.leader.close()

    def _receive_within(self, seconds: float) -> tuple[dict[str, Any], list[int]]:
        waiting = select.poll()
        waiting.register(self.channel.fileno(), select.POLLIN)
        if not waiting.poll(int(seconds * 1000)):
            raise NotMade("init", 0, f"the init said nothing within {seconds:g} s")
        return wire.receive(self.channel)


def unmake(job: Job) -> None:
    """End a job that never ran, with everything of it."""
    job.kill_init()
    job.end()
    job.close()

"""Process 1 of a launcher's namespaces: prepares mounts once, clones slots on request, and takes everything down with it.

It holds the namespaces open and stays outside the limits that the launcher puts on itself; it never runs a command.
"""

from __future__ import annotations

import os
import select
import socket
from typing import Any, NoReturn

from . import kernel, steps, wire
from .linuxos import pidfd_open
from .places import serve_slot


def stage(plan: dict[str, Any], control: socket.socket, alive: int, run_launcher: Any) -> NoReturn:
    """Perform the plan's stage, fork the launcher, serve it. Never returns.

    Args:
        plan: the launcher's plan, as `confine.Plan.to_wire` writes it.
        control: the launcher's socket to the host; used here only to report a failure.
        alive: a pipe that reaches its end when the zygote dies.
        run_launcher: called in the launcher's process with (plan, control, the socket to this stager, an open descriptor of
            the launcher's own PID namespace).
    """
    try:
        steps.die_with_parent()
        if "user" in plan["namespaces"]:
            steps.run("map_ids", lambda: steps.map_own_ids(plan["user"], plan["group"]))
        steps.perform(plan["stage"])
        ours, theirs = wire.socket_pair()
        launcher = os.fork()
        if launcher == 0:
            kernel.close_all_but(control.fileno(), theirs.fileno())
            run_launcher(plan, control, theirs, os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC))
            os._exit(0)
        theirs.close()
        control.close()
        Stager(plan, ours, launcher, alive).serve()
    except steps.StepFailed as failure:
        wire.send(control, {"ready": False, "step": failure.step, "errno": failure.number})
    finally:
        os._exit(0)


class Stager:
    """The loop of process 1: one request at a time, until the launcher or the zygote is gone."""

    def __init__(self, plan: dict[str, Any], requests: socket.socket, launcher: int, alive: int) -> None:
        self._plan = plan
        self._requests = requests
        self._launcher = launcher
        self._poll = select.poll()
        self._inits: dict[int, int] = {}
        self._watch(requests.fileno())
        self._watch(alive)
        self._alive = alive

    def serve(self) -> None:
        """Answer slot requests until there is nobody left to answer; then return, which ends the namespace."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._alive:
                    return
                if descriptor in self._inits:
                    self._reap_init(descriptor)
                elif not self._serve_request():
                    return

    def _watch(self, descriptor: int) -> None:
        self._poll.register(descriptor, select.POLLIN)

    def _serve_request(self) -> bool:
        try:
            wire.receive(self._requests)
            self._clone_slot()
        except wire.PeerGone:
            return False
        return True

    def _clone_slot(self) -> None:
        ours, theirs = wire.socket_pair()
        try:
            init = steps.run("slot", lambda: kernel.clone(steps.namespace_flags(self._plan["slot_namespaces"])))
            if init == 0:
                self._be_init(theirs)
            theirs.close()
            if not self._prepared(ours):
                return
            self._hand_over(init, ours)
        except steps.StepFailed as failure:
            wire.send(self._requests, {"slot": 0, "step": failure.step, "errno": failure.number})
        finally:
            ours.close()
            theirs.close()

    def _be_init(self, channel: socket.socket) -> NoReturn:
        try:
            kernel.close_all_but(channel.fileno())
            steps.perform(self._plan["slot"])
            wire.send(channel, {"ready": True})
            serve_slot(channel)
        except steps.StepFailed as failure:
            wire.send(channel, {"ready": False, "step": failure.step, "errno": failure.number})
        finally:
            os._exit(0)

    def _prepared(self, channel: socket.socket) -> bool:
        """Wait until the new init has its mounts; report its failure otherwise."""
        try:
            answer, _ = wire.receive(channel)
        except wire.PeerGone:
            answer = {"ready": False, "step": "slot", "errno": 0}
        if not answer["ready"]:
            wire.send(self._requests, {"slot": 0, "step": answer["step"], "errno": answer["errno"]})
        return bool(answer["ready"])

    def _hand_over(self, init: int, channel: socket.socket) -> None:
        descriptor = pidfd_open(init)
        self._inits[descriptor] = init
        self._watch(descriptor)
        namespaces = [os.open(f"/proc/{init}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("mnt", "pid")]
        try:
            wire.send(self._requests, {"slot": init}, (channel.fileno(), *namespaces))
        finally:
            for namespace in namespaces:
                os.close(namespace)

    def _reap_init(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        os.close(descriptor)
        os.waitpid(self._inits.pop(descriptor), 0)

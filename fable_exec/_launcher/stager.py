"""Process 1 of a launcher's namespaces: prepares mounts once, clones slots on request, and takes everything down with it.

It holds the namespaces open and stays outside the limits that the launcher puts on itself; it never runs a command. It is also
the observer of refusals: were it gone, so would be every command whose calls wait for an answer.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
from functools import partial

from . import kernel, steps, wire
from .covers import NEW_NAMES, Covers, covered
from .linuxos import pidfd_open
from .pins import Pins, Refused
from .readiness import Readiness
from .reaping import bell, heard
from .refusals import Ledger, answer_to_take
from .slot_init import serve_slot
from .typed import Any, NoReturn

_PREPARE_MILLISECONDS = 10_000


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
        ours, theirs = steps.run("launcher", wire.socket_pair)
        launcher = steps.run("launcher", os.fork)
        if launcher == 0:
            kernel.close_all_but(control.fileno(), theirs.fileno())
            try:
                run_launcher(plan, control, theirs, os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC))
            finally:
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
        self._pins = Pins(plan["workspace"]["path"])
        self._ready = Readiness()
        self._ledger = Ledger()
        self._wanted = True
        paths = covered(plan)
        self._covers = Covers(paths) if paths else None
        if self._covers is not None:
            self._watch(self._covers)
        self._ready.watch(requests.fileno(), self._serve_request)
        self._ready.watch(alive, self._stop)

    def _watch(self, covers: Covers) -> None:
        rung = bell(NEW_NAMES)

        def answer() -> None:
            heard(rung)
            covers.keep()

        covers.watch(self._ready)
        self._ready.watch(rung, answer)

    def serve(self) -> None:
        """Answer slot requests until there is nobody left to answer; then return, which ends the namespace."""
        try:
            while self._wanted:
                self._ready.round(None)
        except wire.PeerGone:
            pass

    def _stop(self) -> None:
        self._wanted = False

    def _serve_request(self) -> None:
        request, descriptors = wire.receive(self._requests)
        if request == "slot":
            self._serve_slot()
        elif request == "observe":
            self._observe(descriptors[0])
        elif "take" in request:
            wire.send(self._requests, answer_to_take(self._ledger, request["take"]))
        else:
            wire.send(self._requests, {"pins": self._keep_pins(request["pins"])})

    def _serve_slot(self) -> None:
        try:
            self._clone_slot()
        except steps.StepFailed as failure:
            wire.send(self._requests, {"slot": 0, "step": failure.step, "errno": failure.number})

    def _observe(self, listener: int) -> None:
        """Answer the calls that the launcher's filter shows, as long as there is this process: nothing outlives it."""
        from .observer import Observer  # loaded by the zygote: the file is not in this root

        observer = Observer(
            self._plan, listener, self._requests, self._ledger, self._pins.holds, serve=self._serve_request, by_namespace=True
        )

        def hear() -> None:
            if not observer.hear():
                self._ready.unwatch(listener)
                observer.close()

        self._ready.watch(listener, hear)

    def _keep_pins(self, paths: list[str]) -> Refused | None:
        """Pin `paths` besides those that are pinned already."""
        try:
            if self._covers is not None:
                self._covers.keep()
            return self._pins.hold(paths)
        except OSError as error:
            return Refused(error.errno or errno.EIO, "the workspace", len(paths))

    def _clone_slot(self) -> None:
        ours, theirs = steps.run("slot", wire.socket_pair)
        with ours, theirs:
            init = steps.run("slot", lambda: kernel.clone(steps.namespace_flags(self._plan["slot_namespaces"])))
            if init == 0:
                self._be_init(theirs)
            theirs.close()
            try:
                handed = steps.run("slot", lambda: _open_slot(init))
                try:
                    _let_it_prepare(ours)
                    steps.run("slot", partial(wire.send, self._requests, {"slot": init}, (ours.fileno(), *handed)))
                finally:
                    for descriptor in handed:
                        os.close(descriptor)
            except steps.StepFailed:
                os.kill(init, signal.SIGKILL)
                os.waitpid(init, 0)
                raise
            self._adopt(init)

    def _be_init(self, channel: socket.socket) -> NoReturn:
        try:
            kernel.close_all_but(channel.fileno())
            wire.receive(channel)
            steps.perform(self._plan["slot"])
            # A command of the same user could otherwise trace its init and put words in its mouth (ptrace(2)).
            kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
            wire.send(channel, {"ready": True})
            serve_slot(channel)
        except steps.StepFailed as failure:
            wire.send(channel, {"ready": False, "step": failure.step, "errno": failure.number})
        finally:
            os._exit(0)

    def _adopt(self, init: int) -> None:
        handle = pidfd_open(init)

        def reap() -> None:
            self._ready.unwatch(handle)
            os.close(handle)
            os.waitpid(init, 0)

        self._ready.watch(handle, reap)


def _open_slot(init: int) -> list[int]:
    """Its namespaces, and its list of children where the kernel has one: opened while the init may still be looked into."""
    names = (f"/proc/{init}/ns/mnt", f"/proc/{init}/ns/pid", f"/proc/{init}/task/{init}/children")
    opened: list[int] = []
    try:
        for name in names:
            opened.append(os.open(name, os.O_RDONLY | os.O_CLOEXEC))
    except FileNotFoundError:
        if len(opened) == 2:
            return opened  # CONFIG_PROC_CHILDREN is off; the init answers instead
        raise
    except OSError:
        for descriptor in opened:
            os.close(descriptor)
        raise
    return opened


def _let_it_prepare(channel: socket.socket) -> None:
    """Wait until the new init has its mounts. Raises StepFailed with what it reports, or when it dies or says nothing."""
    try:
        wire.send(channel, "prepare")
        waiting = select.poll()
        waiting.register(channel.fileno(), select.POLLIN)
        if not waiting.poll(_PREPARE_MILLISECONDS):
            raise steps.StepFailed("slot", errno.ETIMEDOUT)
        answer, _ = wire.receive(channel)
    except wire.PeerGone:
        raise steps.StepFailed("slot", errno.ESRCH) from None
    if not answer["ready"]:
        raise steps.StepFailed(answer["step"], answer["errno"])

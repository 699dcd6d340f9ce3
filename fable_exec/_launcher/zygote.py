"""The root program: started once a host needs it, forks launchers, and leaves nothing behind when the host is gone.

It is single-threaded, runs no command itself, and talks to the host over one socket: first "hello", then one "open" a launcher.
The host's death is seen twice, by the end of the socket and by a process descriptor: a fork of the host may keep the socket.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Callable
from typing import Any, NoReturn

from . import kernel, removal, steps, wire
from .launcher import Launcher
from .linuxos import pidfd_open
from .pools import WorkerPool, pool_for
from .probe import probe
from .proctree import children
from .stager import stage

_CLOSE_SECONDS = 2.0


class Worker:
    """One plain launcher: its process, its control socket (shared by all workers of the plan) and whether it is busy."""

    def __init__(self, plan: dict[str, Any], control: socket.socket, state: socket.socket) -> None:
        self.plan, self.control, self.state = plan, control, state
        self.busy = False


class Zygote:
    """The loop; `serve` returns when the host is gone and everything has been ended."""

    def __init__(self, host: socket.socket) -> None:
        self._host = host
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._processes: dict[int, int] = {}
        self._workers: dict[int, Worker] = {}
        self._alive_read, self._alive_write = os.pipe()
        self._private = ""
        self._running = True

    def serve(self) -> None:
        """Obey the host until it is gone."""
        try:
            self._greet()
            while self._running:
                for descriptor, _ in self._poll.poll():
                    handler = self._handlers.get(descriptor)
                    if handler is not None:
                        handler()
        except wire.PeerGone:
            pass
        self._end_everything()

    def _greet(self) -> None:
        hello, descriptors = wire.receive(self._host)
        steps.become(hello["user"], hello["group"])
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        self._private = _private_directory(hello["directory"])
        self._watch(self._host.fileno(), self._serve_host)
        for handle in descriptors:
            self._watch(handle, self._stop)
        wire.send(self._host, {"private": self._private, "support": probe(hello["user"], hello["group"])})

    def _watch(self, descriptor: int, handler: Callable[[], None]) -> None:
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, select.POLLIN)

    def _forget(self, descriptor: int) -> None:
        del self._handlers[descriptor]
        self._poll.unregister(descriptor)
        os.close(descriptor)

    def _stop(self) -> None:
        self._running = False

    def _serve_host(self) -> None:
        plan, descriptors = wire.receive(self._host)
        control = socket.socket(fileno=descriptors[0])
        if plan["mode"] == "plain":
            self._fork_worker(plan, control, first=True)
            return
        try:
            pid = steps.run("namespaces", lambda: kernel.clone(steps.namespace_flags(plan["namespaces"])))
            if pid == 0:
                self._be_stager(plan, control)
            self._adopt(pid)
        except steps.StepFailed as failure:
            wire.send(control, {"ready": False, "step": failure.step, "errno": failure.number})
        finally:
            control.close()

    def _be_stager(self, plan: dict[str, Any], control: socket.socket) -> NoReturn:
        kernel.close_all_but(control.fileno(), self._alive_read)
        stage(plan, control, self._alive_read, _run_launcher)

    def _fork_worker(self, plan: dict[str, Any], control: socket.socket, *, first: bool) -> None:
        ours, theirs = wire.socket_pair()
        pid = os.fork()
        if pid == 0:
            kernel.close_all_but(control.fileno(), theirs.fileno(), self._alive_read)
            _run_worker(plan, control, self._alive_read, theirs, first)
        theirs.close()
        handle = self._adopt(pid)
        self._workers[handle] = worker = Worker(plan, control, ours)
        self._watch(ours.fileno(), lambda: self._worker_changed(worker))

    def _worker_changed(self, worker: Worker) -> None:
        try:
            word, _ = wire.receive(worker.state)
        except wire.PeerGone:
            self._handlers.pop(worker.state.fileno())
            self._poll.unregister(worker.state.fileno())
            worker.state.close()
            return
        worker.busy = word == "busy"
        siblings = [other for other in self._workers.values() if other.control is worker.control]
        if all(other.busy for other in siblings):
            self._fork_worker(worker.plan, worker.control, first=False)

    def _adopt(self, pid: int) -> int:
        handle = pidfd_open(pid)
        self._processes[handle] = pid
        self._watch(handle, lambda: self._reap(handle))
        return handle

    def _reap(self, handle: int) -> None:
        os.waitpid(self._processes.pop(handle), 0)
        self._forget(handle)
        worker = self._workers.pop(handle, None)
        if worker is not None:
            self._end_orphans()
            if all(other.control is not worker.control for other in self._workers.values()):
                worker.control.close()

    def _end_orphans(self, seconds: float = _CLOSE_SECONDS) -> None:
        """What a dead worker left behind is ours now, as its nearest subreaper: end it."""
        give_up_at = time.monotonic() + seconds
        while time.monotonic() < give_up_at:
            orphans = set(children(os.getpid())) - set(self._processes.values())
            if not orphans:
                return
            for pid in orphans:
                _kill_and_reap(pid)

    def _end_everything(self) -> None:
        os.close(self._alive_write)
        give_up_at = time.monotonic() + _CLOSE_SECONDS
        while self._processes and time.monotonic() < give_up_at:
            self._await_processes(give_up_at)
        for pid in self._processes.values():
            _kill_and_reap(pid)
        self._end_orphans(seconds=_CLOSE_SECONDS / 2)
        if self._private:
            removal.remove_tree(self._private)

    def _await_processes(self, give_up_at: float) -> None:
        waiting = select.poll()
        for handle in self._processes:
            waiting.register(handle, select.POLLIN)
        for handle, _ in waiting.poll(max(1, int((give_up_at - time.monotonic()) * 1000))):
            os.waitpid(self._processes.pop(handle), 0)


def _private_directory(parent: str) -> str:
    """A new directory that only this user can enter, with the home and the temporary directory of all commands."""
    path = os.path.join(parent, f"fable-exec-{os.urandom(8).hex()}")
    for directory in (path, f"{path}/home", f"{path}/tmp", f"{path}/root"):
        os.mkdir(directory, 0o700)
    return path


def _kill_and_reap(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, os.WNOHANG)
    except (ProcessLookupError, ChildProcessError):
        pass


def _run_launcher(plan: dict[str, Any], control: socket.socket, stager: socket.socket, home: int) -> None:
    """The launcher's process inside the stager's namespaces."""
    try:
        pool = pool_for(plan, stager, home)
        steps.perform(plan["launcher"])
        wire.send(control, {"ready": True})
    except steps.StepFailed as failure:
        wire.send(control, {"ready": False, "step": failure.step, "errno": failure.number})
        return
    Launcher(plan, control, pool).serve()


def _run_worker(plan: dict[str, Any], control: socket.socket, alive: int, state: socket.socket, first: bool) -> NoReturn:
    try:
        steps.perform(plan["launcher"])
        launcher = Launcher(plan, control, WorkerPool(alive, state))
        if first:
            wire.send(control, {"ready": True})
        launcher.serve()
    except steps.StepFailed as failure:
        wire.send(control, {"ready": False, "step": failure.step, "errno": failure.number})
    finally:
        os._exit(0)

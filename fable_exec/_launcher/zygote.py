"""The root program: started once a host needs it, forks launchers, and leaves nothing behind when the host is gone.

It is single-threaded, runs no command itself, and talks to the host over one socket: first "hello", then one "open" a launcher.
The host's death is seen twice, by the end of the socket and by a process descriptor: a fork of the host may keep the socket.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import time

from . import kernel, removal, steps, wire
from .confine_steps import take_listener
from .ending import end_children
from .launcher import Launcher
from .linuxos import is_stopped, pidfd_open
from .own_directories import OwnDirectories
from .pools import PlacePool, WorkerPool, pool_for
from .probe import probe
from .proctree import children
from .readiness import Readiness
from .refusals import Ledger, answer_to_take
from .stager import stage
from .typed import Any, NoReturn

_CLOSE_SECONDS = 0.5
"""How long launchers may take to end what they run, once told to, before they are killed."""
_ORPHAN_SECONDS = 2.0
_LAST_ORPHAN_SECONDS = 30.0
"""Nobody waits any more then, and nobody comes after."""
_LOOK_AFTER_WORKERS_MILLISECONDS = 100


class Worker:
    """One plain launcher: its process, its control socket (shared by all workers of the plan) and whether it is busy."""

    def __init__(self, pid: int, plan: dict[str, Any], control: socket.socket, state: socket.socket) -> None:
        self.pid, self.plan, self.control, self.state = pid, plan, control, state
        self.busy = False
        self.ledger = Ledger()


class Zygote:
    """The loop; `serve` returns when the host is gone and everything has been ended."""

    def __init__(self, host: socket.socket) -> None:
        self._host = host
        self._ready = Readiness()
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
                self._ready.round(self._milliseconds())
                self._look_after_workers()
        except wire.PeerGone:
            pass
        finally:
            self._end_everything()

    def _greet(self) -> None:
        try:
            hello, descriptors = wire.receive(self._host)
        except wire.DescriptorsLost as loss:
            wire.send(self._host, {"failed": "descriptors", "errno": errno.EMFILE, "what": "the launcher program"})
            raise wire.PeerGone from loss
        try:
            steps.run("user", lambda: steps.become(hello["user"], hello["group"]))
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
            self._private = steps.run("private_directory", lambda: _private_directory(hello["directory"]))
        except steps.StepFailed as failure:
            wire.send(self._host, {"failed": failure.step, "errno": failure.number, "what": hello["directory"]})
            raise wire.PeerGone from failure
        self._ready.watch(self._host.fileno(), self._serve_host)
        for handle in descriptors:
            self._ready.watch(handle, self._stop)
        wire.send(self._host, {"private": self._private, "support": probe(hello["user"], hello["group"])})

    def _stop(self) -> None:
        self._running = False

    def _serve_host(self) -> None:
        try:
            plan, descriptors = wire.receive(self._host)
        except wire.DescriptorsLost:
            return  # the host sees that its new launcher's socket is closed
        control = wire.adopt(descriptors[0])
        if plan["observer"] is not None:
            from . import observer  # noqa: F401  # for observed plans only, and before anything is forked for one
        try:
            if plan["mode"] == "plain":
                self._fork_worker(plan, control, first=True)
                return
            pid = steps.run("namespaces", lambda: kernel.clone(steps.namespace_flags(plan["namespaces"])))
            if pid == 0:
                self._be_stager(plan, control)
            self._adopt(pid)
        except steps.StepFailed as failure:
            _report_failure(control, failure)
        control.close()

    def _be_stager(self, plan: dict[str, Any], control: socket.socket) -> NoReturn:
        kernel.close_all_but(control.fileno(), self._alive_read)
        stage(plan, control, self._alive_read, _run_launcher)

    # Workers of plain launchers.

    def _fork_worker(self, plan: dict[str, Any], control: socket.socket, *, first: bool) -> None:
        """One more worker. Raises StepFailed when there can be none."""
        ours, theirs = steps.run("worker", wire.socket_pair)
        try:
            pid = steps.run("worker", os.fork)
        except steps.StepFailed:
            ours.close()
            theirs.close()
            raise
        if pid == 0:
            kernel.close_all_but(control.fileno(), theirs.fileno(), self._alive_read)
            _run_worker(plan, control, self._alive_read, theirs, first)
        theirs.close()
        worker = Worker(pid, plan, control, ours)
        self._workers[self._adopt(pid)] = worker
        self._ready.watch(ours.fileno(), lambda: self._worker_changed(worker))

    def _worker_changed(self, worker: Worker) -> None:
        try:
            word, descriptors = wire.receive(worker.state)
        except wire.PeerGone:
            self._ready.unwatch(worker.state.fileno())
            worker.state.close()
            return
        if word == "observe":
            self._observe(worker, descriptors[0])
        elif word in ("busy", "free"):
            worker.busy = word == "busy"
            self._keep_one_free(worker)
        else:
            with contextlib.suppress(wire.PeerGone):
                wire.send(worker.state, answer_to_take(worker.ledger, word["take"]))

    def _observe(self, worker: Worker, listener: int) -> None:
        """Answer the calls that the worker's filter shows. Where Yama is strict only an ancestor may look into a process."""
        from .observer import Observer

        observer = Observer(
            worker.plan,
            listener,
            worker.state,
            worker.ledger,
            lambda path: False,
            serve=lambda: self._worker_changed(worker),
            by_namespace=False,
        )

        def hear() -> None:
            if not observer.hear():
                self._ready.unwatch(listener)
                observer.close()

        self._ready.watch(listener, hear)

    def _keep_one_free(self, worker: Worker) -> None:
        """Whatever the workers of this plan are busy with, the next request must find one that is not."""
        if any(not other.busy for other in self._workers.values() if other.control is worker.control):
            return
        try:
            self._fork_worker(worker.plan, worker.control, first=False)
        except steps.StepFailed:
            pass  # requests wait until a worker is free; the next change tries again

    def _milliseconds(self) -> int | None:
        busy = any(worker.busy for worker in self._workers.values())
        return _LOOK_AFTER_WORKERS_MILLISECONDS if busy else None

    def _look_after_workers(self) -> None:
        """A worker never stops by itself. Its own command can stop it, and would never be ended then: end both."""
        for worker in self._workers.values():
            if worker.busy and is_stopped(worker.pid):
                os.kill(worker.pid, signal.SIGKILL)

    def _adopt(self, pid: int) -> int:
        handle = pidfd_open(pid)
        self._processes[handle] = pid
        self._ready.watch(handle, lambda: self._reap(handle))
        return handle

    def _reap(self, handle: int) -> None:
        os.waitpid(self._processes.pop(handle), 0)
        self._ready.unwatch(handle)
        os.close(handle)
        worker = self._workers.pop(handle, None)
        if worker is None:
            return
        self._end_orphans(_ORPHAN_SECONDS)
        if any(other.control is worker.control for other in self._workers.values()):
            self._keep_one_free(worker)
        else:
            worker.control.close()

    # The end.

    def _end_orphans(self, seconds: float) -> None:
        """What a dead worker left behind is ours now, as its nearest subreaper: end it."""
        spared = frozenset(self._processes.values())
        end_children(lambda: _reap_children(spared), seconds, spared)

    def _end_everything(self) -> None:
        os.close(self._alive_write)
        give_up_at = time.monotonic() + _CLOSE_SECONDS
        while self._processes and time.monotonic() < give_up_at:
            self._await_processes(give_up_at)
        for pid in self._processes.values():
            os.kill(pid, signal.SIGKILL)
        give_up_at = time.monotonic() + _CLOSE_SECONDS
        while self._processes and time.monotonic() < give_up_at:
            self._await_processes(give_up_at)
        self._processes.clear()
        self._end_orphans(_LAST_ORPHAN_SECONDS)
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


def _report_failure(control: socket.socket, failure: steps.StepFailed) -> None:
    try:
        wire.send(control, {"ready": False, "step": failure.step, "errno": failure.number})
    except wire.PeerGone:
        pass  # nobody waits for this launcher any more; the other launchers are none the worse


def _reap_children(spared: frozenset[int]) -> None:
    for pid in set(children(os.getpid())) - spared:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass


def _observe(pool: PlacePool) -> None:
    listener = take_listener()
    if listener >= 0:
        pool.observe(listener)


def _run_launcher(plan: dict[str, Any], control: socket.socket, stager: socket.socket, home: int) -> None:
    """The launcher's process inside the stager's namespaces."""
    try:
        pool = pool_for(plan, stager, home)
        OwnDirectories(plan).open_again()
        steps.perform(plan["launcher"])
        _observe(pool)
        wire.send(control, {"ready": True})
    except steps.StepFailed as failure:
        _report_failure(control, failure)
        return
    Launcher(plan, control, pool).serve()


def _run_worker(plan: dict[str, Any], control: socket.socket, alive: int, state: socket.socket, first: bool) -> NoReturn:
    try:
        OwnDirectories(plan).open_again()
        steps.perform(plan["launcher"])
        # A command is under the same rules as this process, which alone does not keep it from this process's memory.
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        pool = WorkerPool(alive, state, watched=bool(plan["watched_limits"]))
        _observe(pool)
        launcher = Launcher(plan, control, pool)
        if first:
            wire.send(control, {"ready": True})
        launcher.serve()
    except steps.StepFailed as failure:
        _report_failure(control, failure)
    finally:
        os._exit(0)

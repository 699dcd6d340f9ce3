"""Run the host's commands, several at a time, each in a place of its own.

One loop, one poll. A job's states: waiting for a place, running, held (the leader has exited, others live on), ending, done. The
host hears "done" only when the place is proved empty. Protocol on a job's channel: docs/reference/launcher.md.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Callable

from . import wire
from .canary import fork_canary
from .jobs import Job, refuse, room_for_jobs
from .linuxos import pidfd_open
from .own_directories import OwnDirectories
from .places import Place, PlaceLost, Report
from .pools import PlacePool
from .readiness import Readiness
from .spawn import SpawnFailed, Workspace, spawn
from .typed import Any
from .watching import Watch

_END_SECONDS = 2.0
"""How long a place may take to become empty before the job is reported as uncontained."""


class Launcher:
    """The loop. It owns the control socket, the pool of places and every job; `serve` returns when the host is gone."""

    def __init__(self, plan: dict[str, Any], control: socket.socket, pool: PlacePool) -> None:
        self._workspace = Workspace(**plan["workspace"])
        self._environment: dict[str, str] = plan["environment"]
        self._command_limits: list[list[Any]] = plan["command_limits"]
        self._watched_limits: dict[str, int] = dict(plan["watched_limits"])
        self._directories = OwnDirectories(plan)
        self._control = control
        self._pool = pool
        self._capacity = min(pool.capacity, room_for_jobs())
        self._ready = Readiness()
        self._waiting: deque[Job] = deque()
        self._jobs: set[Job] = set()
        self._null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self._accepting = False
        self._ready.watch(pool.descriptor, self._place_arrived)

    def serve(self) -> None:
        """Take requests until the host closes the control socket."""
        try:
            while True:
                self._accept_when_possible()
                self._ready.round(self._milliseconds())
                self._end_overdue()
                if self._watched_limits:
                    self._look_at_trees()
        except wire.PeerGone:
            self._end_all()

    # What there is to wait for.

    def _accept_when_possible(self) -> None:
        able = len(self._jobs) < self._capacity
        if able and not self._accepting:
            self._ready.watch(self._control.fileno(), self._take_request)
        elif self._accepting and not able:
            self._ready.unwatch(self._control.fileno())
        self._accepting = able

    def _milliseconds(self) -> int | None:
        due = [job.due_at for job in self._jobs if job.due_at is not None]
        if self._watched_limits:
            due += [job.look_at for job in self._jobs if job.look_at is not None]
        if not due:
            return None
        return max(0, int((min(due) - time.monotonic()) * 1000) + 1)

    # A job's way.

    def _take_request(self) -> None:
        try:
            request, descriptors = wire.receive(self._control, wire.DO_NOT_WAIT)
        except BlockingIOError:
            return  # another worker was faster
        except wire.DescriptorsLost as loss:
            refuse(loss.kept)
            return
        job = Job(request, descriptors, self._null)
        self._jobs.add(job)
        self._waiting.append(job)
        self._ready.watch(job.channel.fileno(), lambda: self._host_spoke(job))
        self._start_waiting()

    def _place_arrived(self) -> None:
        self._pool.receive()
        self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting:
            try:
                place = self._pool.take(len(self._waiting))
            except SpawnFailed as failure:
                self._fail(self._waiting.popleft(), failure)
                continue
            if place is None:
                return
            self._start(self._waiting.popleft(), place)

    def _start(self, job: Job, place: Place) -> None:
        try:
            job.leader = self._spawn(job, place)
        except SpawnFailed as failure:
            self._not_started(job, place, failure)
            return
        job.close_input()  # the outputs stay: their end would wake the host before there is anything to tell it
        job.place = place
        job.leader_handle = pidfd_open(job.leader)
        now = time.monotonic()
        job.due_at = now + job.request["timeout"]
        job.watch = Watch(self._watched_limits, now) if self._watched_limits else None
        self._ready.watch(job.leader_handle, lambda: self._leader_exited(job))
        if place.descriptor >= 0:
            self._ready.watch(place.descriptor, lambda: self._place_answered(job))
        if job.request["announce"]:
            self._tell(job, {"started": job.leader})

    def _not_started(self, job: Job, place: Place, failure: SpawnFailed) -> None:
        if place.usable():
            self._pool.give_back(place)
            self._fail(job, failure)
            return
        # Its init was killed while it was idle; in a namespace without one nothing can be started (pid_namespaces(7)).
        self._pool.discard(place)
        self._waiting.appendleft(job)

    def _spawn(self, job: Job, place: Place) -> int:
        job.unpinned = self._pool.pin(job.request["pins"])
        if job.unpinned is not None and job.request["pins_required"]:
            raise SpawnFailed("pins", job.unpinned.number, job.unpinned.path)
        try:
            return place.start(lambda: self._begin_leader(job))
        except OSError as error:
            raise SpawnFailed("place", error.errno or 0, type(place).__name__) from error

    def _begin_leader(self, job: Job) -> int:
        self._directories.open_again()
        bait = job.request["canary"]
        if bait is not None:
            return fork_canary(bait, self._workspace.path, job.streams.stdout)
        return spawn(job.request, self._workspace, self._environment, job.streams, self._command_limits)

    def _fail(self, job: Job, failure: SpawnFailed) -> None:
        self._tell(job, {"failed": failure.stage, "errno": failure.number, "what": failure.what})
        self._drop(job)

    def _leader_exited(self, job: Job) -> None:
        assert job.place is not None
        if not self._reap(job):
            # Traced by one of its own: wait(2) will answer when that one is gone.
            self._ready.unwatch(job.leader_handle)
            self._end(job, None)
            return
        self._consult(job, job.place.ask)

    def _reap(self, job: Job) -> bool:
        assert job.place is not None
        result = job.place.reap_leader(job.leader)
        if result is None:
            return False
        self._ready.unwatch(job.leader_handle)
        os.close(job.leader_handle)
        job.leader_handle = -1
        status, (user, system, peak) = result
        processes = 0
        if job.watch is not None:
            peak, processes = max(peak, job.watch.peak_bytes // 1024), job.watch.peak_processes
        job.exit = {
            "status": status, "user": user, "system": system, "peak": peak, "processes": processes, "reason": job.reason,
            "unpinned": job.unpinned,
        }  # fmt: skip
        return True

    def _place_answered(self, job: Job) -> None:
        assert job.place is not None
        self._consult(job, job.place.answer)

    def _consult(self, job: Job, question: Callable[[], Report | None]) -> None:
        """Put `question` to the job's place and act on the answer, if there is one yet."""
        try:
            report = question()
        except PlaceLost:
            self._finish(job, contained=False, lost=True)
            return
        if report is not None:
            self._handle_report(job, report)

    def _handle_report(self, job: Job, report: Report) -> None:
        assert job.place is not None
        if job.ending:  # what ends by itself while the output is drained did not have to be ended
            job.survivors = job.survivors or report.members
        if not report.settled:
            return
        if job.leader_handle >= 0:
            # Asked again once the leader is reaped: only then is "empty" a proof.
            if job.ending and report.empty and self._reap(job):
                self._consult(job, job.place.ask)
            return
        if report.empty:
            self._finish(job, contained=True)
        elif job.ending:
            self._end_place(job)
        else:
            self._tell(job, {**job.exit, "done": False})
            job.close_outputs()

    def _host_spoke(self, job: Job) -> None:
        try:
            wire.receive(job.channel)
        except wire.PeerGone:
            self._ready.unwatch(job.channel.fileno())
        self._end(job, "ended")

    def _end(self, job: Job, reason: str | None) -> None:
        """Kill everything of this job; the answers decide when it is done. `reason` is None when the leader ended by itself."""
        if job.place is None:
            self._waiting.remove(job)
            self._tell(job, {"failed": "cancelled", "errno": 0, "what": "before a place was free"})
            self._drop(job)
        elif not job.ending:
            job.ending = True
            job.reason = None if job.exit else reason
            job.due_at = time.monotonic() + _END_SECONDS
            self._end_place(job)

    def _end_place(self, job: Job) -> None:
        assert job.place is not None
        self._consult(job, job.place.end)

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for job in [job for job in self._jobs if job.due_at is not None and job.due_at <= now]:
            if job.ending:
                self._give_up(job)
            else:
                self._end(job, "deadline")

    def _look_at_trees(self) -> None:
        now = time.monotonic()
        for job in [job for job in self._jobs if job.look_at is not None and job.look_at <= now]:
            assert job.place is not None and job.watch is not None
            exceeded = job.watch.look(*job.place.processes())
            if exceeded == "cpu" and not job.warned:
                # What the kernel does at the limit of one process; a leader that goes on is killed soon after.
                job.warned = True
                job.watch.warn()
                with contextlib.suppress(ProcessLookupError):
                    os.kill(job.leader, signal.SIGXCPU)
            elif exceeded is not None:
                self._end(job, exceeded)

    def _give_up(self, job: Job) -> None:
        """The place would not become empty in time: say so, and never use it again."""
        self._finish(job, contained=False)

    def _finish(self, job: Job, *, contained: bool, lost: bool = False) -> None:
        assert job.place is not None
        survivors = [[member.pid, member.name] for member in job.survivors]
        noted = self._pool.refusals(job.place) or {}
        self._tell(job, {**noted, **job.exit, "done": True, "survivors": survivors, "contained": contained, "lost": lost})
        if job.place.descriptor >= 0:
            self._ready.unwatch(job.place.descriptor)
        if contained:
            self._pool.give_back(job.place)
        else:
            self._pool.discard(job.place)
        self._drop(job)
        self._start_waiting()

    def _tell(self, job: Job, message: dict[str, Any]) -> None:
        try:
            wire.send(job.channel, message)
        except wire.PeerGone:
            pass  # the host no longer wants to know; the job is ended all the same

    def _drop(self, job: Job) -> None:
        if job.place is not None and job.leader_handle >= 0:
            self._reap_later(job.place, job.leader, job.leader_handle)
        self._ready.unwatch(job.channel.fileno())
        job.close_input()
        job.close_outputs()
        job.channel.close()
        self._jobs.discard(job)

    def _reap_later(self, place: Place, leader: int, handle: int) -> None:
        """A leader that could not be ended in time must not stay a zombie when it dies after all."""

        def reap() -> None:
            self._ready.unwatch(handle)
            os.close(handle)
            place.reap_leader(leader)

        self._ready.unwatch(handle)
        self._ready.watch(handle, reap)

    def _end_all(self) -> None:
        """The host is gone: leave nothing running."""
        for job in list(self._jobs):
            if job.place is not None:
                try:
                    job.place.end()
                except PlaceLost:
                    pass

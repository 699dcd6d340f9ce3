"""Process 1 of one supervised job, or where there are no namespaces its subreaper: the parent of everything the job starts.

It makes the leader (job_leader), which does what the plan says, reaps, and answers its keeper. It stays outside of what the plan
puts on the job. It ends with its keeper, and everything it is the init of ends with it. Messages: docs/reference/keeper.md.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Mapping

from . import kernel, steps, wire
from .confine_steps import protect_this_process
from .covers import NEW_NAMES, Covers, covered
from .ending import end_children, signal_everybody, stop_children, terminate_tree
from .gate import fork_at_gate
from .job_leader import Leader, fault, report
from .linuxos import has_children, pidfd_open
from .proctree import Member, list_members, members_below, pids_below
from .readiness import Readiness
from .reaping import MOST_HEARD, Usage, bell, ended_children, heard
from .spawn import Streams
from .typed import Any, NoReturn
from .watching import ProcessFiles, Watch

_KILL_SECONDS = 2.0


class Ends:
    """The descriptors of one job in its init: the channel to the keeper, and what the leader gets."""

    def __init__(self, channel: socket.socket, gate: int, answer: int, streams: Streams) -> None:
        self.channel, self.gate, self.answer, self.streams = channel, gate, answer, streams

    def numbers(self) -> tuple[int, ...]:
        """All of them."""
        return (self.channel.fileno(), self.gate, self.answer, *self.streams)


def be_init(plan: Mapping[str, Any], request: Mapping[str, Any], ends: Ends) -> NoReturn:
    """Be the init of `request` under `plan` until the keeper is gone or says so. Never returns.

    Signals that a keeper handles are blocked, and stay so.

    Args:
        plan: as `confine.Plan.to_wire` writes it, with the job's user, group and workspace.
        request: as `runner.Command.to_wire` writes it; what is to be pinned comes from the keeper, and with it the word to begin.
        ends: everything else that is open is closed.
    """
    try:
        kernel.close_all_but(*ends.numbers())
        if plan["namespaces"]:
            steps.die_with_parent()
        else:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        _Init(plan, request, ends).serve()
    except steps.StepFailed as failure:
        report(ends.channel, {"failed": failure.step, "errno": failure.number, "what": ""})
    except wire.PeerGone:
        pass
    except Exception as error:  # the door of this process: nobody else could tell of it
        report(ends.channel, fault(error))
    finally:
        os._exit(0)


class _Init:
    """The loop. `serve` returns when the keeper is gone and nothing of the job is left."""

    def __init__(self, plan: Mapping[str, Any], request: Mapping[str, Any], ends: Ends) -> None:
        self._plan, self._request, self._ends = plan, request, ends
        self._is_first = bool(plan["namespaces"])
        self._ready = Readiness()
        self._leader, self._handle = 0, -1
        self._files: ProcessFiles | None = None
        self._watch: Watch | None = None
        self._looks = False
        self._warned = False
        self._covered = covered(plan)
        self._covers: Covers | None = None

    def serve(self) -> None:
        """Make the leader once the keeper says so, then reap and answer."""
        rung = bell(signal.SIGCHLD, NEW_NAMES)
        self._ready.watch(rung, lambda: self._answer(rung))
        self._ready.watch(self._ends.channel.fileno(), self._keeper_spoke)
        try:
            self._make_leader(wire.receive_packet(self._ends.channel))
            while True:
                self._ready.round(self._milliseconds())
                self._look_at_tree()
        except wire.PeerGone:
            self._kill()

    def _make_leader(self, word: wire.Packet) -> None:
        """Fork it, and give up what is its own. It prepares itself: whoever stays should touch, and be able to do, little."""
        protect_this_process()
        prepared, theirs = os.pipe() if self._plan["watched_limits"] or self._covered else (-1, -1)
        leader = Leader(self._plan, self._request, self._ends.channel, self._ends.streams, word, theirs)
        limits = () if self._request["canary"] else self._plan["command_limits"]
        self._leader = steps.run("fork", lambda: fork_at_gate(self._ends.gate, self._ends.answer, limits, leader.prepare))
        self._handle = steps.run("fork", lambda: pidfd_open(self._leader))
        self._ready.watch(self._handle, self._leader_ended)
        # A job of the same user could otherwise look into its init, or put words in its mouth (ptrace(2)).
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        if self._covered:
            kernel.keep_launcher_capabilities()  # to cover again what the host replaces
        else:
            kernel.drop_capabilities()
        for descriptor in {self._ends.gate, self._ends.answer, *self._ends.streams, *word[1]}:  # both outputs are one
            os.close(descriptor)
        if prepared >= 0:
            os.close(theirs)
            self._ready.watch(prepared, lambda: self._is_prepared(prepared))

    def _is_prepared(self, prepared: int) -> None:
        """The leader is at its gate: the root is the job's, and /proc the namespace's own."""
        self._ready.unwatch(prepared)
        os.close(prepared)
        if self._covered:
            self._covers = Covers(self._covered)
            self._covers.watch(self._ready)
        if self._plan["watched_limits"]:
            self._watch_tree()

    def _watch_tree(self) -> None:
        self._files = ProcessFiles()
        self._watch, self._looks = Watch(dict(self._plan["watched_limits"]), time.monotonic()), True

    def _answer(self, rung: int) -> None:
        """Children died, or something new may have to be covered."""
        numbers = heard(rung)
        if self._covers is not None and (NEW_NAMES in numbers or len(numbers) == MOST_HEARD):
            self._covers.keep()
        self._reap()

    def _leader_ended(self) -> None:
        """Tell of one whose status cannot be had yet: wait(2) gives it out when the member that traces it is gone."""
        self._reap()
        if self._leader:
            self._ready.unwatch(self._handle)
            wire.send(self._ends.channel, {"lingers": True})

    def _reap(self) -> None:
        """Collect every zombie, and tell of the leader and of the last one."""
        ended = self._take_zombies()
        if ended is not None:
            self._tell_of_leader(*ended)
        if not self._leader and self._is_empty():
            wire.send(self._ends.channel, {"empty": True})

    def _take_zombies(self) -> tuple[int, Usage] | None:
        """Collect every zombie; the leader's status and usage, when it was among them."""
        ended = None
        for pid, status, usage in ended_children():
            if pid == self._leader:
                self._leader, ended = 0, (status, usage)
                self._ready.unwatch(self._handle)
                os.close(self._handle)
        return ended

    def _tell_of_leader(self, status: int, usage: Usage) -> None:
        self._looks = False
        peak, processes = usage[2], None
        if self._watch is not None and self._watch.peak_processes:
            peak, processes = max(peak, self._watch.peak_bytes // 1024), self._watch.peak_processes
        told = {
            "exited": status,
            "user": usage[0],
            "system": usage[1],
            "peak": peak,
            "processes": processes,
            "warned": self._warned,
        }
        wire.send(self._ends.channel, told)

    def _is_empty(self) -> bool:
        """Whether nobody is left: no child, and as process 1 nobody whom a signal to all would reach."""
        return not has_children() and not (self._is_first and signal_everybody(0))

    # What the keeper asks for.

    def _keeper_spoke(self) -> None:
        word, _ = wire.receive(self._ends.channel)
        act = {"look": self._nothing, "terminate": self._terminate, "kill": self._kill}[word]
        members = self._members()
        ended = act() or self._take_zombies()
        if ended is not None:
            self._tell_of_leader(*ended)
        wire.send(self._ends.channel, {"members": members, "empty": not self._leader and self._is_empty()})

    def _nothing(self) -> None:
        """Only look."""

    def _members(self) -> list[Member]:
        found = list_members() if self._is_first else members_below(os.getpid())
        return [member for member in found if member.pid not in (self._leader, os.getpid())]

    def _terminate(self) -> None:
        if self._is_first:
            signal_everybody(signal.SIGTERM)
            signal_everybody(signal.SIGCONT)  # whoever was stopped shall hear it
        else:
            terminate_tree()

    def _kill(self) -> tuple[int, Usage] | None:
        """SIGKILL to everything, and without a namespace until nobody is left, in a bound; the leader's end if it was met."""
        if self._is_first:
            signal_everybody(signal.SIGKILL)
            return None
        stop_children()
        met: list[tuple[int, Usage] | None] = []
        end_children(lambda: met.append(self._take_zombies()), _KILL_SECONDS)
        return next(filter(None, met), None)

    # Limits of the whole tree.

    def _milliseconds(self) -> int | None:
        if self._watch is None or not self._looks:
            return None
        return max(0, int((self._watch.due_at - time.monotonic()) * 1000) + 1)

    def _look_at_tree(self) -> None:
        if not self._looks or self._watch is None or self._files is None or time.monotonic() < self._watch.due_at:
            return
        exceeded = self._watch.look(self._files, self._files.everyone() if self._is_first else pids_below(os.getpid()))
        if exceeded == "cpu" and not self._warned and self._leader:
            # What the kernel does at the limit of one process; a leader that goes on is told of soon after.
            self._warned = True
            self._watch.warn()
            os.kill(self._leader, signal.SIGXCPU)
        elif exceeded is not None:
            self._looks = False
            wire.send(self._ends.channel, {"limit": exceeded})

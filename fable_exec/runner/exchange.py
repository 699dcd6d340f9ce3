"""One command's conversation with its launcher, as a state machine that reads when told to and knows no loop.

A driver (blocking or asyncio) lends it a `Watcher`, calls the handlers it registers when their descriptors are ready, and calls
`tick` when `due_at` has come. It ends within END_SECONDS of any reason to end, whatever the command does.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from fable_exec._launcher import wire
from fable_exec.errors import Conflict, LaunchFailed
from fable_exec.outcome import Applied, Captured, Denial, EndedBy, Observed, Outcome, OutputBuffer, Survivor
from fable_exec.runner.command import Command
from fable_exec.runner.control import Control
from fable_exec.runner.denials import denials_of
from fable_exec.runner.feeding import CommandInput
from fable_exec.runner.pipes import Pipes, unread_bytes

IDLE_DRAIN_SECONDS = 0.05
TOTAL_DRAIN_SECONDS = 0.3
"""After the leader's exit, while others hold its streams: how long silence, and how long all of it may last."""
END_SECONDS = 0.25
"""How long the launcher may take to prove the tree gone before the call returns without the proof."""
_READ_BYTES = 1 << 16
_KILLED = 9
_LIMIT_REASONS = {"memory": EndedBy.MEMORY_LIMITED, "processes": EndedBy.PIDS_LIMITED}

Sink = Callable[[str, bytes], None]


class Watcher(Protocol):
    """What a driver offers: call `handler` when `descriptor` is readable (or writable)."""

    def watch(self, descriptor: int, handler: Callable[[], object], *, writable: bool = False) -> None:
        """Start; the descriptor is not yet watched."""

    def unwatch(self, descriptor: int) -> None:
        """Stop; the descriptor is still open."""


class Exchange:
    """See the module. `done` turns true exactly once; `outcome` is valid then, `failure` is set when the command never ran."""

    def __init__(
        self,
        command: Command,
        applied: tuple[Applied, ...],
        watcher: Watcher,
        sink: Sink | None = None,
        after: Callable[[], tuple[Denial, ...]] | None = None,
        observed: Observed = Observed.OFF,
    ) -> None:
        self.done = False
        self._owner = os.getpid()
        self.failure: LaunchFailed | None = None
        self.leader: int | None = None
        self.input = CommandInput(command.stdin or b"", stays_open=command.open_stdin)
        self._command = command
        self._applied = applied
        self._watcher = watcher
        self._sink = sink
        self._after = after
        self._observed = observed
        self._denials: tuple[Denial, ...] = ()
        self._refused: tuple[Denial, ...] = ()
        self._refused_beyond = 0
        self._buffers = {name: OutputBuffer(command.max_output_bytes, command.on_output_limit) for name in ("stdout", "stderr")}
        self._streams: dict[int, str] = {}
        self._pipes = Pipes()
        self._waiting_to_send = -1
        self._reason: EndedBy | None = None
        self._exit: dict[str, Any] | None = None
        self._survivors: tuple[Survivor, ...] = ()
        self._contained = self._lost = False
        self._started_at = self._heard_at = time.monotonic()
        self._ended_at = 0.0
        self._exited_at = 0.0
        self._give_up_at: float | None = None
        self._channel: socket.socket | None = None
        self._channel_guard = threading.RLock()  # a signal handler may cancel while its own thread is in here

    # Starting.

    def begin(self, control: Control) -> None:
        """Send the request to the launcher behind `control`, or have it sent as soon as that takes more.

        Raises:
            PeerGone: the launcher is dead. LaunchFailed: this process lacks descriptors. Nothing is open then.
        """
        try:
            self._channel = self._pipes.open()
            if self._command.wants_stdin:
                self._pipes.given.insert(1, self.input.open())
            if not self._send(control):
                self._send_later(control)
        except OSError as error:
            self.abandon()
            raise LaunchFailed.at("descriptors", error.errno or 0, "the command's pipes") from error
        except BaseException:
            self.abandon()
            raise
        self._watch_all()

    def _send(self, control: Control) -> bool:
        try:
            request = self._command.to_wire(announce=self._sink is not None)
            control.send(request, tuple(self._pipes.given), self._command.pins)
        except BlockingIOError:
            return False
        self._pipes.close_given()
        return True

    def _send_later(self, control: Control) -> None:
        self._waiting_to_send = control.duplicate()
        self._watcher.watch(self._waiting_to_send, partial(self._try_to_send, control), writable=True)

    def _try_to_send(self, control: Control) -> None:
        try:
            if not self._send(control):
                return
        except (wire.PeerGone, OSError):
            self._lose_launcher()
            return
        self._stop_sending()

    def _stop_sending(self) -> None:
        if self._waiting_to_send >= 0:
            self._watcher.unwatch(self._waiting_to_send)
            os.close(self._waiting_to_send)
            self._waiting_to_send = -1

    def _watch_all(self) -> None:
        assert self._channel is not None
        self._watcher.watch(self._channel.fileno(), self._read_channel)
        for name, descriptor in zip(("stdout", "stderr"), self._pipes.take_kept(), strict=True):
            self._streams[descriptor] = name
            self._watcher.watch(descriptor, partial(self._read_stream, descriptor))
        if self._command.wants_stdin and self.input.begin():
            self._watcher.watch(self.input.descriptor, self._push_input, writable=True)

    # Time.

    @property
    def inherited(self) -> bool:
        """Whether this process is a forked child of the one that began it: what arrives is for the parent."""
        return os.getpid() != self._owner

    def refuse_inherited(self) -> None:
        """Raise Conflict in a forked child."""
        if self.inherited:
            raise Conflict.inherited("this command", self._owner)

    def due_at(self) -> float:
        """When `tick` must be called next (time.monotonic seconds). Raises Conflict in a forked child."""
        self.refuse_inherited()
        if self._give_up_at is not None:
            return self._give_up_at
        if self._exited_at:
            return min(self._heard_at + IDLE_DRAIN_SECONDS, self._exited_at + TOTAL_DRAIN_SECONDS)
        deadline = self._started_at + self._command.timeout_seconds
        idle = self._command.idle_timeout_seconds
        return deadline if idle is None else min(deadline, self._heard_at + idle)

    def tick(self) -> None:
        """Act on what is due."""
        if self.done:
            return
        now = time.monotonic()
        if now < self.due_at():
            return
        if self._give_up_at is not None:
            self._finish(contained=self._waiting_to_send >= 0)  # what was never sent never ran
        elif self._exited_at:
            self.request_end(None)
        elif now >= self._started_at + self._command.timeout_seconds:
            self.request_end(EndedBy.TIMED_OUT)
        else:
            self.request_end(EndedBy.IDLE_TIMED_OUT)

    def request_end(self, reason: EndedBy | None) -> None:
        """Ask the launcher to end the whole tree; the first reason stays. Safe from another thread."""
        with self._channel_guard:
            if self._reason is None:
                self._reason = reason
            if self._give_up_at is None and self._channel is not None:
                self._give_up_at = time.monotonic() + END_SECONDS
                self._say_end()

    def _say_end(self) -> None:
        assert self._channel is not None
        if self.inherited:
            return
        try:
            wire.send(self._channel, "end")
        except (wire.PeerGone, OSError):
            pass  # the end of the channel is read, and says the same

    # What arrives.

    def _read_channel(self) -> None:
        assert self._channel is not None
        try:
            message, _ = wire.receive(self._channel, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except wire.PeerGone:
            self._lose_launcher()
            return
        if "started" in message:
            self.leader = message["started"]
        elif "failed" in message:
            self._fail(message)
        else:
            self._note_exit(message)

    def _lose_launcher(self) -> None:
        self._lost = True
        self._finish(contained=False)

    def _note_exit(self, message: dict[str, Any]) -> None:
        if "status" in message:
            self._exit = message
            self._exited_at = self._heard_at = time.monotonic()
        if message["done"]:
            self._survivors = tuple(Survivor(pid, name) for pid, name in message["survivors"])
            if "refusals" in message:
                self._refused, self._refused_beyond = denials_of(message["refusals"]), message["beyond"]
            self._lost = message["lost"]
            self._finish(contained=message["contained"])
        elif not self._streams:
            self.request_end(None)  # nobody holds the streams: there is nothing to wait for

    def _fail(self, message: dict[str, Any]) -> None:
        if message["failed"] != "cancelled":
            self.failure = LaunchFailed.at(message["failed"], message["errno"], message["what"])
        self._finish(contained=True)

    def _read_stream(self, descriptor: int) -> int:
        """Take what is there; returns how much that was."""
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return 0
        if not data:
            self._close_stream(descriptor)
            if self._exited_at and not self._streams and not self.done:
                self.request_end(None)
            return 0
        self._heard_at = time.monotonic()
        self._take(self._streams[descriptor], data)
        return len(data)

    def _take(self, name: str, data: bytes) -> None:
        buffer = self._buffers[name]
        room = max(0, buffer.max_bytes - buffer.total_bytes)
        buffer.append(data)
        killing = self._command.on_output_limit == "kill"
        if self._sink is not None and (room or not killing):
            self._sink(name, data[:room] if killing else data)
        if killing and buffer.limited and self._reason is None:
            self.request_end(EndedBy.OUTPUT_LIMITED)

    def _push_input(self) -> None:
        if not self.input.push():
            self._watcher.unwatch(self.input.descriptor)
            self.input.pushed()

    # Ending.

    def _close_stream(self, descriptor: int) -> None:
        self._watcher.unwatch(descriptor)
        os.close(descriptor)
        del self._streams[descriptor]

    def _finish(self, *, contained: bool) -> None:
        self._contained = contained
        self.done = True
        for descriptor in list(self._streams):
            self._drain(descriptor)
        self._ended_at = time.monotonic()
        self.abandon()

    def _drain(self, descriptor: int) -> None:
        """Take what is in the pipe now: all of it when its writers are dead, and a bounded amount when they are not."""
        rest = unread_bytes(descriptor)
        while rest > 0 and (taken := self._read_stream(descriptor)):
            rest -= taken

    def abandon(self) -> None:
        """Close everything. Before `done` this makes the launcher end the tree by itself; a forked child's not. Idempotent."""
        if self._channel is not None and not self.done:
            self._say_end()  # a forked copy of this process may keep the channel open, so closing it may say nothing
        self.done = True
        self._stop_sending()
        if self.input.descriptor >= 0:
            self._watcher.unwatch(self.input.descriptor)
            self.input.close()
        for descriptor in list(self._streams):
            self._close_stream(descriptor)
        self._pipes.close()
        self._close_channel()
        after, self._after = self._after, None
        if after is not None and not self.inherited:
            self._denials = after()

    def _close_channel(self) -> None:
        with self._channel_guard:
            if self._channel is not None:
                self._watcher.unwatch(self._channel.fileno())
                self._channel.close()
                self._channel = None

    def outcome(self) -> Outcome:
        """What happened, once `done`. Raises LaunchFailed when the command never ran."""
        if self.failure is not None:
            raise self.failure
        exit_facts = self._exit or {"status": None, "user": 0.0, "system": 0.0, "peak": 0, "processes": 0, "reason": None}
        code, signal = _decoded(exit_facts["status"])
        return Outcome(
            ended_by=self._ended_by(exit_facts["reason"], code, signal),
            exit_code=code,
            signal=signal,
            stdout=self._captured("stdout"),
            stderr=self._captured("stderr"),
            duration_seconds=self._ended_at - self._started_at,
            user_cpu_seconds=exit_facts["user"],
            system_cpu_seconds=exit_facts["system"],
            peak_rss_bytes=exit_facts["peak"] * 1024,
            peak_processes=exit_facts["processes"],
            survivors=self._survivors,
            applied=self._applied if self._contained else _unproved(self._applied),
            denials=(*self._refused, *self._denials),
            denials_omitted=self._refused_beyond,
            observed=self._observed,
        )

    def _captured(self, name: str) -> Captured:
        return self._buffers[name].captured()

    def _ended_by(self, launcher_reason: str | None, code: int | None, signal: int | None) -> EndedBy:
        return ended_by(
            wanted=self._reason,
            launcher_reason=launcher_reason,
            code=code,
            signal=signal,
            overflowed=self._command.on_output_limit == "kill" and any(each.limited for each in self._buffers.values()),
            lost=self._lost,
        )


def ended_by(
    *, wanted: EndedBy | None, launcher_reason: str | None, code: int | None, signal: int | None, overflowed: bool, lost: bool
) -> EndedBy:
    """The reason that made the leader end; a reason that came too late to touch it does not count.

    Args:
        wanted: what this side asked the launcher to end it for, if it did.
        launcher_reason: why the launcher ended the leader: "deadline", "ended" (asked to), "memory", "processes" or "cpu" (the
            whole tree exceeded that limit), or None (it did not).
        code, signal: the leader's status, both None when nobody reaped it.
        overflowed: more output came than may be kept, and that ends a command.
        lost: the launcher or the place went away: a kill that came with that is not the command's own end.
    """
    if overflowed:
        return EndedBy.OUTPUT_LIMITED
    if lost and (code is None or signal is not None):
        return EndedBy.BROKER_LOST
    if launcher_reason is None and code is None and signal is None:
        return wanted or EndedBy.BROKER_LOST
    if launcher_reason in _LIMIT_REASONS and code != 0:
        return _LIMIT_REASONS[launcher_reason]  # the limit was exceeded; one that fails for it has not ended by itself
    if launcher_reason is not None and launcher_reason != "cpu" and signal == _KILLED:
        return EndedBy.TIMED_OUT if launcher_reason == "deadline" else wanted or EndedBy.CANCELLED
    return EndedBy.EXITED if signal is None else EndedBy.SIGNALED


def _decoded(status: int | None) -> tuple[int | None, int | None]:
    """(exit code, signal) of a wait status."""
    if status is None:
        return None, None
    code = os.waitstatus_to_exitcode(status)
    return (code, None) if code >= 0 else (None, -code)


def _unproved(applied: tuple[Applied, ...]) -> tuple[Applied, ...]:
    return tuple(
        Applied(each.protection, each.mode, "degraded", each.means, "the tree was not proved gone in time")
        if each.protection == "whole_tree_end"
        else each
        for each in applied
    )

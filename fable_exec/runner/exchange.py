"""One command's conversation with its launcher, as a state machine that reads when told to and knows no loop.

A driver (blocking or asyncio) lends it a `Watcher`, calls the handlers it registers when their descriptors are ready, and calls
`tick` when `due_at` has come. It ends within END_SECONDS of any reason to end, whatever the command does.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from .._launcher import wire
from ..errors import LaunchFailed
from ..outcome import Applied, Captured, EndedBy, Outcome, OutputBuffer, Survivor
from .command import Command

IDLE_DRAIN_SECONDS = 0.05
TOTAL_DRAIN_SECONDS = 0.3
"""After the leader's exit, while others hold its streams: how long silence, and how long all of it may last."""
END_SECONDS = 0.25
"""How long the launcher may take to prove the tree gone before the call returns without the proof."""
_READ_BYTES = 1 << 16
_FINAL_READS = 64
_KILLED = 9

Sink = Callable[[str, bytes], None]


class Watcher(Protocol):
    """What a driver offers: call `handler` when `descriptor` is readable (or writable)."""

    def watch(self, descriptor: int, handler: Callable[[], object], *, writable: bool = False) -> None:
        """Start; the descriptor is not yet watched."""

    def unwatch(self, descriptor: int) -> None:
        """Stop; the descriptor is still open."""


class Exchange:
    """See the module. `done` turns true exactly once; `outcome` is valid then, `failure` is set when the command never ran."""

    def __init__(self, command: Command, applied: tuple[Applied, ...], watcher: Watcher, sink: Sink | None = None) -> None:
        self.done = False
        self.failure: LaunchFailed | None = None
        self.leader: int | None = None
        self._command = command
        self._applied = applied
        self._watcher = watcher
        self._sink = sink
        self._buffers = {name: OutputBuffer(command.max_output_bytes, command.on_output_limit) for name in ("stdout", "stderr")}
        self._streams: dict[int, str] = {}
        self._stdin = -1
        self._unsent = memoryview(command.stdin or b"")
        self._reason: EndedBy | None = None
        self._exit: dict[str, Any] | None = None
        self._survivors: tuple[Survivor, ...] = ()
        self._contained = False
        self._started_at = self._heard_at = time.monotonic()
        self._ended_at = 0.0
        self._exited_at = 0.0
        self._give_up_at: float | None = None
        self._channel: socket.socket | None = None

    # Starting.

    def begin(self, control: socket.socket) -> None:
        """Send the request to the launcher behind `control`. Raises PeerGone when it is dead; nothing is open then."""
        channel, theirs = wire.socket_pair()
        opened = [os.pipe(), os.pipe()]
        given = [opened[0][1], opened[1][1]]
        kept = [opened[0][0], opened[1][0]]
        if self._command.wants_stdin:
            read, self._stdin = os.pipe()
            given.insert(0, read)
        try:
            with theirs:
                request = self._command.to_wire(announce=self._sink is not None)
                wire.send(control, request, (theirs.fileno(), *given))
        except BaseException:
            channel.close()
            for descriptor in kept:
                os.close(descriptor)
            self._close_stdin()
            raise
        finally:
            for descriptor in given:
                os.close(descriptor)
        self._watch_all(channel, kept)

    def _watch_all(self, channel: socket.socket, streams: list[int]) -> None:
        self._channel = channel
        self._watcher.watch(channel.fileno(), self._read_channel)
        for name, descriptor in zip(("stdout", "stderr"), streams, strict=True):
            os.set_blocking(descriptor, False)
            self._streams[descriptor] = name
            self._watcher.watch(descriptor, partial(self._read_stream, descriptor))
        if self._stdin >= 0:
            os.set_blocking(self._stdin, False)
            if self._unsent:
                self._watcher.watch(self._stdin, self._write_stdin, writable=True)
            elif not self._command.open_stdin:
                self._close_stdin()

    # Time.

    def due_at(self) -> float:
        """When `tick` must be called next (time.monotonic seconds)."""
        if self._give_up_at is not None:
            return self._give_up_at
        if self._exited_at:
            return min(self._heard_at + IDLE_DRAIN_SECONDS, self._exited_at + TOTAL_DRAIN_SECONDS)
        deadline = self._started_at + self._command.timeout_seconds
        idle = self._command.idle_timeout_seconds
        return deadline if idle is None else min(deadline, self._heard_at + idle)

    def tick(self) -> None:
        """Act on what is due."""
        now = time.monotonic()
        if self.done or now < self.due_at():
            return
        if self._give_up_at is not None:
            self._finish(contained=False)
        elif self._exited_at:
            self.request_end(None)
        elif now >= self._started_at + self._command.timeout_seconds:
            self.request_end(EndedBy.TIMED_OUT)
        else:
            self.request_end(EndedBy.IDLE_TIMED_OUT)

    def request_end(self, reason: EndedBy | None) -> None:
        """Ask the launcher to end the whole tree; the first reason stays. Safe from another thread."""
        if self._reason is None:
            self._reason = reason
        if self._give_up_at is None and self._channel is not None:
            self._give_up_at = time.monotonic() + END_SECONDS
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
            self._reason = EndedBy.BROKER_LOST
            self._finish(contained=False)
            return
        if "started" in message:
            self.leader = message["started"]
        elif "failed" in message:
            self._fail(message)
        else:
            self._note_exit(message)

    def _note_exit(self, message: dict[str, Any]) -> None:
        if "status" in message:
            self._exit = message
            self._exited_at = self._heard_at = time.monotonic()
        if message["done"]:
            self._survivors = tuple(Survivor(pid, name) for pid, name in message["survivors"])
            self._finish(contained=message["contained"])
        elif not self._streams:
            self.request_end(None)  # nobody holds the streams: there is nothing to wait for

    def _fail(self, message: dict[str, Any]) -> None:
        if message["failed"] != "cancelled":
            self.failure = LaunchFailed.at(message["failed"], message["errno"], message["what"])
        self._finish(contained=True)

    def _read_stream(self, descriptor: int) -> bool:
        """Take what is there; returns whether more may come now."""
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._close_stream(descriptor)
            if self._exited_at and not self._streams and not self.done:
                self.request_end(None)
            return False
        self._heard_at = time.monotonic()
        self._take(self._streams[descriptor], data)
        return True

    def _take(self, name: str, data: bytes) -> None:
        buffer = self._buffers[name]
        room = max(0, buffer.max_bytes - buffer.total_bytes)
        buffer.append(data)
        killing = self._command.on_output_limit == "kill"
        if self._sink is not None and (room or not killing):
            self._sink(name, data[:room] if killing else data)
        if killing and buffer.limited and self._reason is None:
            self.request_end(EndedBy.OUTPUT_LIMITED)

    # Standard input.

    def _write_stdin(self) -> None:
        try:
            written = os.write(self._stdin, self._unsent[: select.PIPE_BUF * 16])
        except BlockingIOError:
            return
        except BrokenPipeError:
            written = len(self._unsent)  # the command does not want the rest
        self._unsent = self._unsent[written:]
        if not self._unsent:
            self._watcher.unwatch(self._stdin)
            if not self._command.open_stdin:
                self._close_stdin()

    def feed(self, data: bytes) -> int:
        """Write some of `data` to an open standard input now; returns how many bytes were taken.

        Raises BrokenPipeError when the command does not read any more, BlockingIOError when it is not reading just now.
        """
        if self._stdin < 0:
            raise BrokenPipeError("standard input is closed")
        return os.write(self._stdin, data)

    @property
    def stdin_descriptor(self) -> int:
        """The writing end while it is open, else -1; it stays the exchange's."""
        return self._stdin

    def close_stdin(self) -> None:
        """Let the command see the end of its standard input."""
        if self._unsent and self._stdin >= 0:
            self._watcher.unwatch(self._stdin)
            self._unsent = self._unsent[:0]
        self._close_stdin()

    def _close_stdin(self) -> None:
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1

    # Ending.

    def _close_stream(self, descriptor: int) -> None:
        self._watcher.unwatch(descriptor)
        os.close(descriptor)
        del self._streams[descriptor]

    def _finish(self, *, contained: bool) -> None:
        self._contained = contained
        self.done = True
        for descriptor in list(self._streams):
            reads = 0
            while reads < _FINAL_READS and self._read_stream(descriptor):
                reads += 1
        self._ended_at = time.monotonic()
        self.abandon()

    def abandon(self) -> None:
        """Close everything. Before `done` this makes the launcher end the tree by itself."""
        self.done = True
        self.close_stdin()
        for descriptor in list(self._streams):
            self._close_stream(descriptor)
        if self._channel is not None:
            self._watcher.unwatch(self._channel.fileno())
            self._channel.close()
            self._channel = None

    def outcome(self) -> Outcome:
        """What happened, once `done`. Raises LaunchFailed when the command never ran."""
        if self.failure is not None:
            raise self.failure
        exit_facts = self._exit or {"status": None, "user": 0.0, "system": 0.0, "peak": 0, "reason": None}
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
            survivors=self._survivors,
            applied=self._applied if self._contained else _unproved(self._applied),
        )

    def _captured(self, name: str) -> Captured:
        return self._buffers[name].captured()

    def _ended_by(self, launcher_reason: str | None, code: int | None, signal: int | None) -> EndedBy:
        """The reason that made the leader end; a reason that came too late to touch it does not count."""
        if self._command.on_output_limit == "kill" and any(buffer.limited for buffer in self._buffers.values()):
            return EndedBy.OUTPUT_LIMITED
        if launcher_reason is None and code is None and signal is None:
            return self._reason or EndedBy.BROKER_LOST
        if launcher_reason is not None and signal == _KILLED:
            return EndedBy.TIMED_OUT if launcher_reason == "deadline" else self._reason or EndedBy.CANCELLED
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

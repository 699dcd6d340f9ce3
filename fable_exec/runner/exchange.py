"""One command's conversation with its launcher, as a state machine that reads when told to and knows no loop.

A driver (blocking or asyncio) lends it a `Watcher`, calls the handlers it registers when their descriptors are ready, and calls
`tick` when `due_at` has come. It ends soon after any reason to end (`deadlines`), whatever the command does.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from fable_exec._launcher import wire
from fable_exec._sys.forks import ProcessLock
from fable_exec.errors import ConfinementUnavailable, Conflict, LaunchFailed
from fable_exec.outcome import Applied, Denial, EndedBy, Observed, Outcome
from fable_exec.runner.command import NO_PINS, Command, Pins
from fable_exec.runner.control import Control
from fable_exec.runner.deadlines import Deadlines
from fable_exec.runner.ending import Ending, failure_of
from fable_exec.runner.feeding import CommandInput
from fable_exec.runner.pipes import Pipes
from fable_exec.runner.streams import Sink, Streams, Watcher


class Exchange:
    """See the module. `done` turns true exactly once; `outcome` is valid then, `failure` is set when the command never ran."""

    def __init__(
        self,
        command: Command,
        applied: tuple[Applied, ...],
        watcher: Watcher,
        sink: Sink | None = None,
        pins: Pins = NO_PINS,
        after: Callable[[bool], tuple[Denial, ...]] | None = None,
        observed: Observed = Observed.OFF,
    ) -> None:
        self.done = False
        self.failure: LaunchFailed | ConfinementUnavailable | None = None
        self.leader: int | None = None
        self.input = CommandInput(command.stdin or b"", stays_open=command.open_stdin)
        self._owner = os.getpid()
        self._command = command
        self._pins = pins
        self._watcher = watcher
        self._announce = sink is not None
        self._after = after
        self._ending = Ending(applied, observed)
        self._deadlines = Deadlines(command.timeout_seconds, command.idle_timeout_seconds)
        self._streams = Streams(command.max_output_bytes, command.on_output_limit, watcher, sink, self._deadlines.hear)
        self._pipes = Pipes()
        self._waiting_to_send = -1
        self._ended_at = 0.0
        self._channel: socket.socket | None = None
        self._channel_guard = ProcessLock()  # a signal handler may cancel while its own thread is in here

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
            request = self._command.to_wire(announce=self._announce, pins_required=self._pins.required)
            control.send(request, tuple(self._pipes.given), self._pins.paths)
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
            descriptor, self._waiting_to_send = self._waiting_to_send, -1
            os.close(descriptor)

    def _watch_all(self) -> None:
        assert self._channel is not None
        self._watcher.watch(self._channel.fileno(), self._read_channel)
        self._streams.open(self._pipes.take_kept(), self._note_output)
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
        return self._deadlines.due_at()

    def tick(self) -> None:
        """Act on what is due."""
        if self.done:
            return
        now = time.monotonic()
        if now < self.due_at():
            return
        if self._deadlines.end_was_asked_for:
            self._finish(contained=self._waiting_to_send >= 0)  # what was never sent never ran
        else:
            self.request_end(self._deadlines.reason(now))

    def request_end(self, reason: EndedBy | None) -> None:
        """Ask the launcher to end the whole tree; the first reason stays. Safe from another thread."""
        with self._channel_guard:
            if self._ending.wanted is None:
                self._ending.wanted = reason
            if not self._deadlines.end_was_asked_for and self._channel is not None:
                self._deadlines.note_end()
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
            message, _ = wire.receive(self._channel, wire.DO_NOT_WAIT)
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
        self._ending.lost = True
        self._finish(contained=False)

    def _note_exit(self, message: dict[str, Any]) -> None:
        if "status" in message:
            self._ending.note_exit(message)
            self._deadlines.note_exit()
        if message["done"]:
            self._ending.note_done(message)
            self._finish(contained=message["contained"])
        elif not self._streams:
            self.request_end(None)  # nobody holds the streams: there is nothing to wait for

    def _fail(self, message: dict[str, Any]) -> None:
        if message["failed"] != "cancelled":
            self.failure = failure_of(message["failed"], message["errno"], message["what"])
        self._finish(contained=True)

    def _note_output(self) -> None:
        if self._streams.overflowed:
            if self._ending.wanted is None:
                self.request_end(EndedBy.OUTPUT_LIMITED)
        elif self._deadlines.leader_has_exited and not self._streams and not self.done:
            self.request_end(None)

    def _push_input(self) -> None:
        if not self.input.push():
            self._watcher.unwatch(self.input.descriptor)
            self.input.pushed()

    # Ending.

    def _finish(self, *, contained: bool) -> None:
        self._ending.contained = contained
        self.done = True
        self._streams.drain(self._note_output)
        self._ended_at = time.monotonic()
        self.abandon()

    def abandon(self) -> None:
        """Close everything. Before `done` this makes the launcher end the tree by itself; a forked child's not. Idempotent."""
        if self._channel is not None and not self.done:
            self._say_end()  # a forked copy of this process may keep the channel open, so closing it may say nothing
        self.done = True
        self._stop_sending()
        if self.input.descriptor >= 0:
            self._watcher.unwatch(self.input.descriptor)
            self.input.close()
        self._streams.close()
        self._pipes.close()
        self._close_channel()
        after, self._after = self._after, None
        if after is not None and not self.inherited:
            self._ending.found = after(self._ending.unpinned is None)

    def _close_channel(self) -> None:
        with self._channel_guard:
            if self._channel is not None:
                self._watcher.unwatch(self._channel.fileno())
                self._channel.close()
                self._channel = None

    def outcome(self) -> Outcome:
        """What happened, once `done`. Raises its failure when the command never ran."""
        if self.failure is not None:
            raise self.failure
        return self._ending.outcome(self._streams, self._ended_at - self._deadlines.started_at)

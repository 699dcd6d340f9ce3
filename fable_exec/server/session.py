"""What a peer has sent and what may begin when: the server's core, without any input, output, thread or process (sans-IO).

Requests without an `id` form one lane and begin one after the other, so that their answers come in order. Requests with one begin
at once while fewer than `max_in_flight` run. Everything that waits is bounded: when the bound is reached no further frame is
taken, the peer's pipe fills, and the peer waits.
"""

from __future__ import annotations

import functools
from collections import deque
from typing import Protocol

from fable_exec._sys.forks import ProcessLock
from fable_exec.errors import Conflict, FableExecError, FrameTooLarge, InternalError, InvalidRequest
from fable_exec.frames import END, NEED_DATA, FrameReader, Oversized
from fable_exec.policy import Limits
from fable_exec.protocol import Cancel, Envelope, Request, decode_line

__all__ = ["MAX_WAITING", "Session", "Task", "cancelled_before_it_began"]

MAX_WAITING = 256
"""Requests that are read and not begun; their bytes are bounded besides."""
_WAITING_FRAMES = 4
_SHORT_BYTES = 64
_KEPT = 16
"""Short lines whose requests are kept: hosts probe, list and look again and again, and a request is a value."""


class Cancellable(Protocol):
    """Something that runs and can be ended from another thread."""

    def cancel(self) -> None: ...


_CANCELLING = ProcessLock()
"""One for all tasks: it is held for an instant, and a lock each would cost every request."""


class Task:
    """One line of the peer's that wants exactly one answer: a request, or the `error` that it turned out to be."""

    __slots__ = ("_cancelled", "_running", "error", "id", "request", "size")

    def __init__(self, identifier: str | int | None, request: Request | None, error: FableExecError | None, size: int) -> None:
        self.id = identifier
        self.request = request
        self.error = error
        self.size = size
        self._running: Cancellable | None = None
        self._cancelled = False

    @property
    def action(self) -> str | None:
        """The word of the request's action, None when there was no request to be had."""
        return None if self.request is None else self.request.action

    def attach(self, running: Cancellable) -> None:
        """Say what to end when this is cancelled; it is ended at once if that has happened already."""
        with _CANCELLING:
            self._running = running
            if self._cancelled:
                running.cancel()

    def cancel(self) -> None:
        """End what runs for it, now or as soon as it begins."""
        with _CANCELLING:
            self._cancelled = True
            if self._running is not None:
                self._running.cancel()


def cancelled_before_it_began() -> Conflict:
    """The answer to a task that was withdrawn."""
    return Conflict("the request was cancelled before it began", reason="cancelled")


class Session:
    """Feed it bytes, ask it for the next task until there is none, tell it when one is finished. One thread at a time."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._reader = FrameReader(limits.max_frame_bytes)
        self._decode_short = functools.lru_cache(_KEPT)(self._decode)
        self._lane: deque[Task] = deque()
        self._lane_runs: Task | None = None
        self._waiting: deque[Task] = deque()
        self._waiting_bytes = 0
        self._by_id: dict[str | int, Task] = {}
        self._in_flight: set[Task] = set()
        self._drained = True
        self._ended = False

    # Input

    @property
    def wants_input(self) -> bool:
        """Whether more bytes may be fed now. Not while frames that were fed are still to be taken."""
        return self._drained and not self._ended

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the peer's."""
        self._drained = False
        self._reader.feed(data)

    def feed_eof(self) -> None:
        """The peer will send no more; an unterminated last line counts as one."""
        self._drained = False
        self._ended = True
        self._reader.feed_eof()

    # Tasks

    @property
    def in_flight(self) -> frozenset[Task]:
        """Tasks that were begun and are not finished."""
        return frozenset(self._in_flight)

    @property
    def at_end(self) -> bool:
        """Whether the peer's last line was taken, begun and finished."""
        return self._ended and self._drained and not (self._lane or self._waiting or self._in_flight)

    def next_task(self) -> Task | None:
        """The next task to begin now, which is then in flight; None until something is fed or finished."""
        while True:
            task = self._startable()
            if task is not None:
                self._in_flight.add(task)
                return task
            if len(self._lane) + len(self._waiting) >= MAX_WAITING:
                return None
            if self._waiting_bytes >= _WAITING_FRAMES * self._limits.max_frame_bytes:
                return None
            frame = self._reader.next_frame()
            if frame is NEED_DATA or frame is END:
                self._drained = True
                return None
            self._queue(self._task_of(frame))

    def finished(self, task: Task) -> None:
        """The task has been answered."""
        self._in_flight.discard(task)
        if task is self._lane_runs:
            self._lane_runs = None
        self._forget_id(task)

    def find(self, identifier: str | int) -> Task | None:
        """The task of that id, if it is in flight or waits."""
        return self._by_id.get(identifier)

    def withdraw(self, task: Task) -> bool:
        """Take back a task that waits, which must then be answered by the caller; False if it has begun."""
        if task not in self._waiting:
            return False
        self._waiting.remove(task)
        self._waiting_bytes -= task.size
        self._forget_id(task)
        return True

    def withdraw_all(self) -> list[Task]:
        """Take back everything that waits, oldest first within each kind."""
        tasks = [*self._lane, *self._waiting]
        self._lane.clear()
        self._waiting.clear()
        self._waiting_bytes = 0
        for task in tasks:
            self._forget_id(task)
        return tasks

    def _startable(self) -> Task | None:
        if len(self._in_flight) >= self._limits.max_in_flight:
            return self._urgent()
        if self._lane and self._lane_runs is None:
            self._lane_runs = self._lane.popleft()
            return self._unqueued(self._lane_runs)
        return self._unqueued(self._waiting.popleft()) if self._waiting else None

    def _urgent(self) -> Task | None:
        """What does not run but only answers or ends: it must not wait for what it may be about to end."""
        for task in self._waiting:
            if task.error is not None or isinstance(task.request, Cancel):
                self._waiting.remove(task)
                return self._unqueued(task)
        return None

    def _unqueued(self, task: Task) -> Task:
        self._waiting_bytes -= task.size
        return task

    def _queue(self, task: Task) -> None:
        (self._lane if task.id is None else self._waiting).append(task)
        self._waiting_bytes += task.size

    def _task_of(self, frame: bytes | Oversized) -> Task:
        if isinstance(frame, Oversized):
            text = f"a request of {frame.size} bytes is longer than {self._limits.max_frame_bytes}; it was skipped"
            return Task(None, None, FrameTooLarge(text), 0)
        try:
            envelope = self._decode_short(frame) if len(frame) <= _SHORT_BYTES else self._decode(frame)
        except FableExecError as error:
            return Task(getattr(error, "request_id", None), None, error, 0)
        except Exception as error:  # the door: whatever a line does to the decoder, the next one is read
            return Task(None, None, InternalError(f"the line could not be read ({type(error).__name__})"), 0)
        return self._with_known_id(Task(envelope.id, envelope.request, None, len(frame)))

    def _decode(self, frame: bytes) -> Envelope:
        return decode_line(frame, self._limits)

    def _with_known_id(self, task: Task) -> Task:
        if task.id is None:
            return task
        if task.id in self._by_id:
            return Task(task.id, None, InvalidRequest("a request with this id has not been answered yet"), 0)
        self._by_id[task.id] = task
        return task

    def _forget_id(self, task: Task) -> None:
        if task.id is not None and self._by_id.get(task.id) is task:
            del self._by_id[task.id]

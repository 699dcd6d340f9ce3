"""The server's thin shell: one thread listens, workers do what takes time, and the session says what may begin.

It ends when the peer closes its end of the input, stops reading, the admin says so, or the process it was started for ends, and
takes with it whatever still runs. Nothing a peer sends ends it.
"""

from __future__ import annotations

import os
import select
import time
from collections import deque
from functools import partial

from fable_exec._sys.inherited import GONE
from fable_exec.broker import ExecutionBroker, StartedCommand
from fable_exec.errors import BrokerGone
from fable_exec.frames import encode_frame
from fable_exec.protocol import (
    Append,
    Cancel,
    CancelResult,
    EditFile,
    EventEncoder,
    ExecuteCommand,
    InspectFiles,
    ListCommands,
    ListDirectory,
    MakeDirectory,
    MovePath,
    Output,
    Probe,
    Request,
    Started,
    StatPath,
    WriteFile,
)
from fable_exec.server.lines import AnswerLines, error_line
from fable_exec.server.outbox import HIGH_WATER_BYTES, Outbox
from fable_exec.server.session import Session, Task, cancelled_before_it_began
from fable_exec.server.workers import Workers

__all__ = ["FINISH_SECONDS", "Server"]

FINISH_SECONDS = 1.2
"""After the end of the input: how long what runs may take to finish before it is ended."""
END_SECONDS = 0.35
"""How long ending it may take."""
_READ_BYTES = 1 << 16

_AT_ONCE = (Probe, StatPath, ListCommands)
"""Answered by the listening thread, always: they take microseconds."""
_AT_ONCE_IF_ALONE = (InspectFiles, ListDirectory, WriteFile, Append, EditFile, MakeDirectory, MovePath)
"""Answered by it while nothing else is in flight: handing them over would only cost time, and nobody waits meanwhile."""


class Server:
    """Serves one peer on two descriptors, which stay the caller's. `run` returns when it is over; call it once, then `close`.

    Args:
        host: a process by its descriptor, also the caller's: `run` ends when that does, whoever still holds the peer's end.
    """

    def __init__(self, broker: ExecutionBroker, stdin: int = 0, stdout: int = 1, host: int | None = None) -> None:
        self._broker = broker
        self._stdin = stdin
        self._stdout = stdout
        self._session = Session(broker.policy.limits)
        self._workers = Workers()
        self._finished: deque[Task] = deque()
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_reader, False)
        os.set_blocking(self._wake_writer, False)
        self._outbox = Outbox(stdout, self._wake)
        self._lines = AnswerLines(broker.policy.limits.max_answer_bytes)
        self._poll = select.poll()
        self._poll.register(self._wake_reader, select.POLLIN)
        self._host = host
        if host is not None:
            self._poll.register(host, select.POLLIN)
        self._watched: dict[int, int] = {}
        self._end_requested = False
        self._idle = True
        self._finish_at: float | None = None

    def request_end(self) -> None:
        """End what runs and return from `run`. Safe from any thread."""
        self._end_requested = True
        self._wake()

    def run(self) -> None:
        """Serve until the end, and end the commands of this peer's. The broker stays the caller's."""
        try:
            while not self._is_over():
                self._begin_tasks()
                if not self._is_over():
                    self._wait()
        finally:
            self._outbox.give_up()
            for task in self._session.in_flight:
                task.cancel()
            self._idle = self._workers.close(END_SECONDS)

    def close(self) -> None:
        """Release what it made, unless a worker that hangs may still be about to wake it. Not while `run` runs; once."""
        if self._idle:
            os.close(self._wake_reader)
            os.close(self._wake_writer)

    # Listening

    def _is_over(self) -> bool:
        if self._end_requested or self._outbox.broken:
            return True
        if self._finish_at is None:
            return False
        return (self._session.at_end and not self._outbox.pending_bytes) or time.monotonic() >= self._finish_at + END_SECONDS

    def _wait(self) -> None:
        """Sleep until something can be read, written or finished, or the time to finish is up."""
        pending = self._outbox.pending_bytes
        self._watch(self._stdout, select.POLLOUT if pending else 0)
        self._watch(self._stdin, select.POLLIN if self._session.wants_input and pending < HIGH_WATER_BYTES else None)
        for descriptor, flags in self._poll.poll(self._milliseconds()):
            if descriptor == self._stdin:
                self._read()
            elif descriptor == self._wake_reader:
                self._take_finished()
            elif descriptor == self._host:
                self._end_requested = True
            elif flags & GONE:
                self._outbox.give_up()
            else:
                self._outbox.flush()
        if self._finish_at is not None and time.monotonic() >= self._finish_at:
            self._end_what_runs()

    def _watch(self, descriptor: int, events: int | None) -> None:
        """Have it watched for `events`, None for not even its end; costs nothing while that stays the same."""
        if self._watched.get(descriptor) == events:
            return
        if events is None:
            self._poll.unregister(descriptor)
            del self._watched[descriptor]
        else:
            self._poll.register(descriptor, events)
            self._watched[descriptor] = events

    def _milliseconds(self) -> int | None:
        if self._finish_at is None:
            return None
        now = time.monotonic()
        until = self._finish_at if now < self._finish_at else self._finish_at + END_SECONDS
        return max(0, int((until - now) * 1000) + 1)

    def _read(self) -> None:
        try:
            data = os.read(self._stdin, _READ_BYTES)
        except BlockingIOError:
            return  # whoever shares the open file made it non-blocking, and took what was there
        except OSError:
            data = b""
        if data:
            self._session.feed(data)
        else:
            self._session.feed_eof()
            self._finish_at = time.monotonic() + FINISH_SECONDS

    def _wake(self) -> None:
        try:
            os.write(self._wake_writer, b"\0")
        except BlockingIOError:
            pass  # it is awake already

    def _take_finished(self) -> None:
        try:
            os.read(self._wake_reader, _READ_BYTES)
        except BlockingIOError:
            pass
        while self._finished:
            self._session.finished(self._finished.popleft())

    # Working

    def _begin_tasks(self) -> None:
        while self._outbox.pending_bytes < HIGH_WATER_BYTES and not self._outbox.broken:
            task = self._session.next_task()
            if task is None:
                return
            self._begin(task)

    def _begin(self, task: Task) -> None:
        request = task.request
        if request is None:
            self._outbox.post(error_line(task, task.error))
        elif isinstance(request, Cancel) and request.target is not None:
            self._outbox.post(self._lines.answer(task, CancelResult(cancelled=self._cancel(request.target))))
        elif isinstance(request, _AT_ONCE) or (isinstance(request, _AT_ONCE_IF_ALONE) and len(self._session.in_flight) == 1):
            self._outbox.post(self._performed_line(task, request))
        else:
            self._workers.submit(partial(self._work, task, request))
            return
        self._session.finished(task)

    def _cancel(self, identifier: str | int) -> bool:
        task = self._session.find(identifier)
        if task is None:
            return False
        if self._session.withdraw(task):
            self._outbox.post(error_line(task, cancelled_before_it_began()))
            return True
        task.cancel()
        return isinstance(task.request, ExecuteCommand)

    def _end_what_runs(self) -> None:
        for task in self._session.withdraw_all():
            self._outbox.post(error_line(task, task.error or BrokerGone("the broker ends; the request was not begun")))
        for task in self._session.in_flight:
            task.cancel()

    def _work(self, task: Task, request: Request) -> None:
        """A worker's job: do it, answer, and have the listening thread note it."""
        try:
            if isinstance(request, ExecuteCommand):
                self._run_command(task, request)
            else:
                result = self._broker.perform(request)
                self._outbox.send(lambda: self._lines.answer(task, result))
        except BaseException as error:
            failure = error
            self._outbox.send(lambda: error_line(task, failure))
        finally:
            self._finished.append(task)
            self._wake()

    def _run_command(self, task: Task, request: ExecuteCommand) -> None:
        with self._broker.begin_command(request) as started:
            task.attach(started)
            if request.stream:
                self._send_events(started, EventEncoder(task.id, request.encoding))
            result = started.wait()
        assert result is not None  # without a time limit there always is one
        self._outbox.send(lambda: self._lines.answer(task, result))

    def _send_events(self, started: StartedCommand, encoder: EventEncoder) -> None:
        for event in started.events():
            if isinstance(event, Started):
                lines = [encoder.started()]
            elif isinstance(event, Output):
                lines = encoder.output(event.stream, event.data)
            else:
                assert started.outcome is not None
                lines = encoder.exited(started.outcome)
            for line in lines:
                self._outbox.send(partial(encode_frame, line))

    def _performed_line(self, task: Task, request: Request) -> bytes:
        try:
            return self._lines.answer(task, self._broker.perform(request))
        except BaseException as error:
            return error_line(task, error)

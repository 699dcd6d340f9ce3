"""A broker in a process of its own, for threads. It has no thread: whoever waits for an answer reads for all who wait."""

from __future__ import annotations

import math
import os
import select
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable
from types import TracebackType

from fable_exec.calls import BlockingCalls, OnEvent
from fable_exec.calls.building import expect
from fable_exec.calls.listening import check_blocking_listener, tell
from fable_exec.client import admin_line
from fable_exec.client.child import NO_SIGNAL, start_child
from fable_exec.client.conversation import Conversation, Pending
from fable_exec.client.started import StartedCommand, warn_of_unclosed
from fable_exec.errors import BrokerGone, Conflict
from fable_exec.policy import BrokerPolicy
from fable_exec.protocol import Cancel, ExecuteCommand, Probe, ProbeResult, Request, Result, StartCommand, StartResult

__all__ = ["BrokerClient"]

_READ_BYTES = 1 << 16
_STEP_SECONDS = 0.1
_GIVE_UP_SECONDS = 1.0
"""How long an interrupted caller waits for the proof that its command was ended."""


class BrokerClient(BlockingCalls):
    """Starts ``python -m fable_exec.server`` under `policy` and gives the same calls and errors as ExecutionBroker.

    Thread-safe; requests of several threads are in flight at once. Close it, or use it in `with`. When this process dies, however
    it dies, the broker and all that it runs end with it.

    Args:
        python: the interpreter of the child; None is this one.

    Raises:
        PolicyError: the broker refuses its policy on this host.
        LaunchFailed, BrokerGone: it could not be started.
    """

    def __init__(self, policy: BrokerPolicy, *, python: str | None = None) -> None:
        self.policy = policy
        self._owner = os.getpid()
        self._child = start_child(policy, python)
        self._left_open = weakref.finalize(self, self._child.left_open)
        self._left_open.atexit = False  # the broker ends with this process
        self._conversation = Conversation(policy.limits)
        self._state = threading.Lock()
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._commanding = threading.Lock()
        self._dropped: deque[str] = deque()
        self._closed = False
        try:
            expect(self.perform(Probe()), ProbeResult)
        except BrokerGone as gone:
            reason = self._child.last_words()
            self.close()
            raise reason from gone
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The process id of the broker."""
        return self._child.process.pid

    def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        """Have `request` done; `on_event` gets the events of an ExecuteCommand.

        Raises:
            FableExecError: as the broker raised it. BrokerGone: it died or was closed; what it ran has been ended with it.
        """
        self._refuse_inherited()
        check_blocking_listener(on_event)
        if self._dropped:
            self._send_dropped()
        arrived = threading.Event()
        with self._state:
            pending, line = self._conversation.ask(request, arrived.set)
        try:
            self._write(line)
            self._await(pending, arrived, on_event)
        except BaseException:
            self._abandon(pending, arrived)
            raise
        return pending.result()

    def unlock_writes(self, token: str, *, expires_in_seconds: float | None = None, paths: Iterable[str] | None = None) -> None:
        """Unlock workspace writes over the channel that only this process has; see ExecutionBroker.unlock_writes."""
        self._command(admin_line.unlock_line(token, expires_in_seconds, paths))

    def lock_writes(self) -> None:
        """Lock workspace writes again."""
        self._command(admin_line.lock_line())

    def close(self) -> None:
        """End the broker and all that it runs, some seconds at most, and release everything. Idempotent.

        In a forked child it releases the child's copies: the broker is the parent's.
        """
        if self._is_inherited:
            if self._left_open.detach() is not None:
                self._closed = True
                self._child.let_go()
            return
        with self._state:
            if self._closed:
                return
            self._closed = True
            self._left_open.detach()
        if not self._writing.acquire(timeout=_GIVE_UP_SECONDS):
            self._child.process.kill()  # it does not read, and a thread of ours waits for it to
            self._writing.acquire()
        try:
            self._child.end_requests()
        finally:
            self._writing.release()
        self._child.wait()
        self._lose("the broker is closed")
        with self._reading, self._commanding:
            self._child.close()

    def __enter__(self) -> BrokerClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def _is_inherited(self) -> bool:
        return os.getpid() != self._owner

    def _refuse_inherited(self) -> None:
        # Before any lock: in a forked child a thread that is not there may hold it.
        if self._is_inherited:
            raise Conflict.inherited("this client", self._owner)

    def _start(self, request: StartCommand) -> StartedCommand:
        return StartedCommand(self, expect(self.perform(request), StartResult), self._end_dropped)

    # Waiting. One thread reads for all; when it has what it came for, it wakes another of those that wait.

    def _await(self, pending: Pending, arrived: threading.Event, on_event: OnEvent | None, give_up_at: float = math.inf) -> None:
        while True:
            while pending.events:
                event = pending.events.popleft()
                if on_event is not None:
                    tell(on_event, event)
            self._refuse_inherited()  # now: the callback may have forked
            arrived.clear()
            if pending.done or time.monotonic() >= give_up_at:
                return
            if not pending.events:
                self._wait_or_read(pending, arrived, give_up_at)

    def _wait_or_read(self, pending: Pending, arrived: threading.Event, give_up_at: float) -> None:
        pending.waits = True  # after `clear`: from here on a wake-up is not lost
        try:
            if not self._reading.acquire(blocking=False):
                arrived.wait(None if give_up_at == math.inf else max(0.0, give_up_at - time.monotonic()))
                return
            try:
                while not (pending.done or pending.events) and time.monotonic() < give_up_at:
                    self._read(give_up_at)
            finally:
                self._reading.release()
        finally:
            pending.waits = False
            self._wake_next_reader()

    def _wake_next_reader(self) -> None:
        if self._reading.locked():
            return  # whoever reads now wakes the next one when it is done; two would wake each other without end
        with self._state:
            following = next((each for each in self._conversation.waiting if each.waits), None)
        if following is not None:
            following.wake()

    def _read(self, give_up_at: float) -> None:
        """Take what the broker sent, waiting for it. Only for the thread that holds `_reading`."""
        if not _is_ready(self._child.answers, select.POLLIN, give_up_at):
            return
        data = os.read(self._child.answers, _READ_BYTES)
        with self._state:
            self._conversation.receive(data)

    # Sending

    def _write(self, line: bytes) -> None:
        with self._writing:
            if self._closed:
                raise BrokerGone("the broker is closed")
            rest = memoryview(line)
            try:
                while rest:
                    rest = rest[self._write_some(rest) :]
            except BaseException:
                if len(rest) < len(line):  # half a line: nothing that follows it could be understood
                    self._lose("a request was cut off while it was sent")
                    self._child.process.kill()
                raise

    def _write_some(self, data: memoryview) -> int:
        try:
            return self._child.send_some(data)
        except BlockingIOError:
            self._wait_to_write()
            return 0
        except OSError as error:
            self._lose("the broker ended")
            raise BrokerGone("the broker ended") from error

    def _wait_to_write(self) -> None:
        """Wait until the broker reads on. It may be waiting for us to read first: then do that, unless another thread does."""
        soon = time.monotonic() + _STEP_SECONDS
        if not self._reading.acquire(blocking=False):
            _is_ready(self._child.requests.fileno(), select.POLLOUT, soon)
            return
        try:
            waiting = select.poll()
            waiting.register(self._child.requests, select.POLLOUT)
            waiting.register(self._child.answers, select.POLLIN)
            if any(descriptor == self._child.answers for descriptor, _ in waiting.poll(int(_STEP_SECONDS * 1000))):
                self._read(soon)
        finally:
            self._reading.release()
            self._wake_next_reader()

    def _abandon(self, pending: Pending, arrived: threading.Event) -> None:
        """The caller was interrupted: have its command ended, and wait a moment for the answer that says so."""
        try:
            if isinstance(pending.request, ExecuteCommand) and not pending.done and not self._is_inherited:
                with self._state:
                    cancel, line = self._conversation.ask(Cancel(target=pending.id), _nobody)
                    self._conversation.forget(cancel)
                self._write(line)
                self._await(pending, arrived, None, time.monotonic() + _GIVE_UP_SECONDS)
        except BrokerGone:
            pass  # then it has been ended
        finally:
            if not self._is_inherited:  # a callback forked, and this is the child
                with self._state:
                    self._conversation.forget(pending)

    def _lose(self, why: str) -> None:
        with self._state:
            self._conversation.lose(BrokerGone(why))

    # Handles that nobody has any more. Nothing is waited for: this very thread may be in the midst of any of the above.

    def _end_dropped(self, started: StartResult) -> None:
        if self._closed or self._is_inherited:
            return
        self._dropped.append(started.handle)
        try:
            warn_of_unclosed(started)
        finally:
            self._send_dropped()

    def _send_dropped(self) -> None:
        """Have their commands ended, now or, where a lock is held or the broker does not read, before the next request."""
        if self._writing.acquire(blocking=False):
            try:
                while self._dropped and not self._closed and self._send_cancel(self._dropped[0]):
                    self._dropped.popleft()
            finally:
                self._writing.release()

    def _send_cancel(self, name: str) -> bool:
        if not self._state.acquire(blocking=False):
            return False
        try:
            cancel, line = self._conversation.ask(Cancel(handle=name), _nobody)
            self._conversation.forget(cancel)
        except BrokerGone:
            return True  # it has been ended
        finally:
            self._state.release()
        try:
            self._child.send_some(line)  # whole or not at all: so short a line is one buffer of the socket
        except OSError:
            return False
        return True

    # The admin's channel

    def _command(self, line: bytes) -> None:
        self._refuse_inherited()
        with self._commanding:
            if self._closed:
                raise BrokerGone("the broker is closed")
            admin = self._child.admin
            admin.settimeout(admin_line.ANSWER_SECONDS)
            answer = b""
            try:
                admin.sendall(line, NO_SIGNAL)
                while not answer.endswith(b"\n") and (piece := admin.recv(_READ_BYTES)):
                    answer += piece
            except OSError as error:
                raise BrokerGone(f"the broker cannot be commanded: {error}") from error
        admin_line.check_answer(answer)


def _nobody() -> None:
    """Nobody waits for this answer."""


def _is_ready(descriptor: int, event: int, until: float) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, event)
    return bool(waiting.poll(None if until == math.inf else max(0, int((until - time.monotonic()) * 1000) + 1)))

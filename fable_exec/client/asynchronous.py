"""A broker in a process of its own, for asyncio: the loop watches the pipes, and cancelling a task ends its command first."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Awaitable, Iterable
from types import TracebackType

from fable_exec.calls import AsyncCalls, OnEvent
from fable_exec.calls.building import expect
from fable_exec.calls.listening import check_listener
from fable_exec.client import admin_line
from fable_exec.client.child import NO_SIGNAL, Child, start_child
from fable_exec.client.conversation import Conversation, Pending
from fable_exec.client.started import AsyncStartedCommand, warn_of_unclosed
from fable_exec.errors import BrokerGone, Conflict
from fable_exec.policy import BrokerPolicy
from fable_exec.protocol import Cancel, ExecuteCommand, Probe, Request, Result, StartCommand, StartResult

__all__ = ["AsyncBrokerClient"]

_READ_BYTES = 1 << 16
_GIVE_UP_SECONDS = 1.0
"""How long a cancelled caller waits for the proof that its command was ended."""


class AsyncBrokerClient(AsyncCalls):
    """The asyncio twin of BrokerClient, for one loop. The broker is started by `async with`, or by the first call.

    Calls from another loop than the first one's raise Conflict.

    Args:
        python: the interpreter of the child; None is this one.
    """

    def __init__(self, policy: BrokerPolicy, *, python: str | None = None) -> None:
        self.policy = policy
        self._python = python
        self._link: _Link | None = None
        self._starting: dict[int, asyncio.Lock] = {}
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process id of the broker, None before it was started."""
        return None if self._link is None else self._link.child.process.pid

    async def start(self) -> None:
        """Start the broker if it was not, and wait until it answers.

        Raises:
            PolicyError: the broker refuses its policy on this host.
            LaunchFailed, BrokerGone: it could not be started.
        """
        async with self._start_lock():
            if self._closed:
                raise BrokerGone("the broker is closed")
            if self._link is None:
                link = _Link(await self._started_child(), self.policy)
                await self._greet(link)
                self._link = link
                self._left_open = weakref.finalize(self, link.left_open)
                self._left_open.atexit = False  # the broker ends with this process

    async def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        """Have `request` done; `on_event` gets the events of an ExecuteCommand. See BrokerClient.perform.

        An `on_event` that returns an awaitable is awaited.
        """
        check_listener(on_event)
        if self._link is None:
            await self.start()
        assert self._link is not None
        return await self._link.perform(request, on_event)

    async def unlock_writes(
        self, token: str, *, expires_in_seconds: float | None = None, paths: Iterable[str] | None = None
    ) -> None:
        """Unlock workspace writes over the channel that only this process has; see ExecutionBroker.unlock_writes."""
        await self._command(admin_line.unlock_line(token, expires_in_seconds, paths))

    async def lock_writes(self) -> None:
        """Lock workspace writes again."""
        await self._command(admin_line.lock_line())

    async def close(self) -> None:
        """End the broker and all that it runs, some seconds at most, and release everything. Idempotent."""
        async with self._start_lock():
            self._closed = True
            if self._link is not None:
                self._left_open.detach()
                await self._link.close()

    async def __aenter__(self) -> AsyncBrokerClient:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def _start_lock(self) -> asyncio.Lock:
        """One a process: in a forked child the task that holds the parent's never goes on."""
        return self._starting.setdefault(os.getpid(), asyncio.Lock())

    async def _start(self, request: StartCommand) -> AsyncStartedCommand:
        return AsyncStartedCommand(self, expect(await self.perform(request), StartResult), self._end_dropped)

    def _end_dropped(self, started: StartResult) -> None:
        if self._link is None or self._closed or self._link.is_inherited:
            return
        try:
            warn_of_unclosed(started)
        finally:
            self._link.end_dropped(started.handle)

    async def _command(self, line: bytes) -> None:
        if self._link is None:
            await self.start()
        assert self._link is not None
        admin_line.check_answer(await self._link.command(line))

    async def _started_child(self) -> Child:
        starting = asyncio.ensure_future(asyncio.to_thread(start_child, self.policy, self._python))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.wait({starting})  # it cannot be stopped; what it started must not be left behind
            if starting.exception() is None:
                await asyncio.to_thread(starting.result().discard)
            raise

    @staticmethod
    async def _greet(link: _Link) -> None:
        try:
            await link.perform(Probe(), None)
        except BrokerGone as gone:
            link.stop_writing()
            reason = await asyncio.to_thread(link.child.last_words)
            await link.close()
            raise reason from gone
        except BaseException:
            await link.close()
            raise


class _Link:
    """One running child on one loop."""

    def __init__(self, child: Child, policy: BrokerPolicy) -> None:
        self.child = child
        self._owner = os.getpid()
        self._loop = asyncio.get_running_loop()
        self._conversation = Conversation(policy.limits)
        self._unsent = bytearray()
        self._commanding = asyncio.Lock()
        self._closed = False
        os.set_blocking(child.answers, False)
        child.admin.setblocking(False)
        self._loop.add_reader(child.answers, self._read)

    @property
    def is_inherited(self) -> bool:
        """Whether this process is a forked child of the one that started the broker."""
        return os.getpid() != self._owner

    async def perform(self, request: Request, on_event: OnEvent | None) -> Result:
        self._refuse_another_loop()
        arrived = asyncio.Event()
        pending, line = self._conversation.ask(request, arrived.set)
        try:
            self._send(line)
            await self._follow(pending, arrived, on_event)
        except BaseException:
            await self._abandon(pending, arrived)
            raise
        return pending.result()

    def _refuse_another_loop(self) -> None:
        if self.is_inherited:
            raise Conflict.inherited("this client", self._owner)
        # Its readers are registered with the first loop: in another one an answer would never be seen.
        if asyncio.get_running_loop() is not self._loop:
            raise Conflict("this client belongs to another event loop; make one for each")

    async def command(self, line: bytes) -> bytes:
        """The admin's answer to `line`; what came when the channel ended or the time was over."""
        self._refuse_another_loop()
        answer = b""
        async with self._commanding:
            if self._closed:
                raise BrokerGone("the broker is closed")
            try:
                async with asyncio.timeout(admin_line.ANSWER_SECONDS):
                    sent = self.child.admin.send(line, NO_SIGNAL)  # all of it, nearly always
                    await self._loop.sock_sendall(self.child.admin, line[sent:])
                    while not answer.endswith(b"\n") and (piece := await self._loop.sock_recv(self.child.admin, _READ_BYTES)):
                        answer += piece
            except OSError as error:  # TimeoutError is one
                raise BrokerGone(f"the broker cannot be commanded: {error or 'no answer in time'}") from error
        return answer

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self.is_inherited:
            self.child.let_go()  # the loop's selector is shared with the parent: it is not touched
            return
        self.stop_writing()
        self.child.end_requests()
        ending = asyncio.ensure_future(asyncio.to_thread(self.child.wait))
        try:
            await asyncio.shield(ending)
        finally:
            if not ending.done():  # cancelled meanwhile: nothing may be left all the same
                self.child.process.kill()
                await asyncio.wait({ending})
            self._loop.remove_reader(self.child.answers)
            self._conversation.lose(BrokerGone("the broker is closed"))
            self.child.close()

    def end_dropped(self, name: str) -> None:
        """Nobody has the handle of that command any more. The garbage collector calls this in any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel, name)

    def _cancel(self, name: str) -> None:
        try:
            cancel, line = self._conversation.ask(Cancel(handle=name), _nobody)
            self._conversation.forget(cancel)
            self._send(line)
        except BrokerGone:
            pass  # it has been ended

    def left_open(self) -> None:
        """Nobody has the client any more, and nobody closed it. The garbage collector calls this in any thread."""
        if self._loop.is_running() and asyncio._get_running_loop() is not self._loop and not self.is_inherited:
            self._loop.call_soon_threadsafe(self._end_left_open)  # in that thread alone the loop may be touched
        else:
            self._end_left_open()

    def _end_left_open(self) -> None:
        self._closed = True
        if not (self._loop.is_closed() or self.is_inherited):
            self.stop_writing()
            self._loop.remove_reader(self.child.answers)
        self.child.left_open()

    # Receiving

    def _read(self) -> None:
        if self.is_inherited:
            self._conversation.lose(Conflict.inherited("this client", self._owner))
            return
        try:
            data = os.read(self.child.answers, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self.child.answers)
        self._conversation.receive(data)

    async def _follow(self, pending: Pending, arrived: asyncio.Event, on_event: OnEvent | None) -> None:
        while True:
            while pending.events:
                event = pending.events.popleft()
                if on_event is not None:
                    told = on_event(event)
                    if isinstance(told, Awaitable):
                        await told
            if pending.done:
                return
            arrived.clear()
            await arrived.wait()

    async def _abandon(self, pending: Pending, arrived: asyncio.Event) -> None:
        """The caller was cancelled: have its command ended, and wait a moment for the answer that says so."""
        if isinstance(pending.request, ExecuteCommand) and not (pending.done or self._closed or self.is_inherited):
            cancel, line = self._conversation.ask(Cancel(target=pending.id), _nobody)
            self._conversation.forget(cancel)
            self._send(line)
            ending = asyncio.ensure_future(self._follow(pending, arrived, None))
            give_up_at = self._loop.time() + _GIVE_UP_SECONDS
            while not ending.done() and self._loop.time() < give_up_at:
                try:
                    await asyncio.wait({ending}, timeout=give_up_at - self._loop.time())
                except asyncio.CancelledError:
                    continue  # it is being cancelled already
            ending.cancel()
        self._conversation.forget(pending)

    # Sending

    def _send(self, line: bytes) -> None:
        """Write now what the broker takes, the rest as soon as it does. A line once begun is always finished."""
        if self._closed:
            raise BrokerGone("the broker is closed")
        idle = not self._unsent
        self._unsent += line
        if idle:
            self._write()
            if self._unsent:
                self._loop.add_writer(self.child.requests, self._write)

    def stop_writing(self) -> None:
        """Drop what is unsent; the socket is not watched any more."""
        if self._unsent:
            self._unsent.clear()
            self._loop.remove_writer(self.child.requests)

    def _write(self) -> None:
        try:
            written = self.child.send_some(self._unsent)
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()
            self._conversation.lose(BrokerGone("the broker ended"))
        else:
            del self._unsent[:written]
        if not self._unsent:
            self._loop.remove_writer(self.child.requests)


def _nobody() -> None:
    """Nobody waits for this answer."""

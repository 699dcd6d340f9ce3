"""An event loop in a thread of its own, and threads and loops that wait for what runs in it. What that is, is not known here."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from fable_exec._sys.forks import ProcessLock
from fable_exec.errors import BrokerGone, Conflict

__all__ = ["LoopThread"]

_T = TypeVar("_T")


class LoopThread:
    """One loop in one thread, from now until `end`. Any number of threads may call into it.

    Args:
        owner: whose loop it is, as its refusals say it: "the workspace is closed".
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._process = os.getpid()
        self._changing = ProcessLock()
        self._loop: asyncio.AbstractEventLoop | None = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(self._loop,), name=f"fable_exec {owner}", daemon=True)
        self._thread.start()

    @property
    def is_inherited(self) -> bool:
        """Whether this process is a forked child, which has no such thread."""
        return os.getpid() != self._process

    def wait(self, work: Coroutine[Any, Any, _T]) -> _T:
        """The result of `work`. What interrupts the waiting thread cancels the work, and waits for its end.

        Raises:
            BrokerGone: it has ended, or did so meanwhile.
            Conflict: `inherited`, or this is the loop's own thread, which would wait for itself.
        """
        ended = threading.Event()
        with self._changing:
            call = _Call(self._open_loop(work), work, ended.set)
        try:
            ended.wait()
        except BaseException:
            call.cancel()
            ended.wait()
            raise
        return self._result_of(call)

    async def wait_elsewhere(self, work: Coroutine[Any, Any, _T]) -> _T:
        """The same in any other event loop, where no thread waits: a cancellation cancels the work, and goes on after its end."""
        here, ended = asyncio.get_running_loop(), asyncio.Event()
        with self._changing:
            call = _Call(self._open_loop(work), work, lambda: _tell(here, ended))
        try:
            await ended.wait()
        except asyncio.CancelledError:
            call.cancel()
            while not ended.is_set():
                try:
                    await ended.wait()
                except asyncio.CancelledError:
                    continue  # asked once more; the work is being ended already
            raise
        except GeneratorExit:
            call.cancel()  # who waited was dropped, and nothing can wait in its place
            raise
        return self._result_of(call)

    def _result_of(self, call: _Call[_T]) -> _T:
        try:
            return call.result()
        except asyncio.CancelledError:
            if self._loop is not None:
                raise  # the work's own doing
            raise BrokerGone(f"the {self._owner} was closed meanwhile") from None

    def end(self, last: Callable[[], Coroutine[Any, Any, object]] | None = None) -> None:
        """End what others wait for, await `last()` in the loop, end loop and thread. Idempotent; nothing in a forked child."""
        with self._changing:
            loop, self._loop = self._loop, None
        if loop is None or self.is_inherited:
            return
        ending = asyncio.run_coroutine_threadsafe(_end_all(last), loop)
        if threading.current_thread() is self._thread:
            ending.add_done_callback(lambda _: loop.stop())  # dropped there: it cannot wait for itself
            return
        try:
            ending.result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()

    def _open_loop(self, work: Coroutine[Any, Any, Any]) -> asyncio.AbstractEventLoop:
        """Raises what says that nothing can be asked of the loop from here, now."""
        if self._loop is None:
            refusal: Exception = BrokerGone(f"the {self._owner} is closed")
        elif self.is_inherited:
            refusal = Conflict.inherited(f"this {self._owner}", self._process)
        elif threading.current_thread() is self._thread:
            refusal = Conflict(f"this is the {self._owner}'s own thread, which would wait for itself", reason="own-thread")
        else:
            return self._loop
        work.close()
        raise refusal


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        _run_to_its_stop(loop)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _run_to_its_stop(loop: asyncio.AbstractEventLoop) -> None:
    """Run it until `stop`. What a listener raises to end a whole program leaves the loop too; who called it gets it all the same,
    and the others' calls go on."""
    while True:
        try:
            return loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            continue


class _Call(Generic[_T]):
    """One coroutine, run in the loop for another thread. `ended` is called in the loop when nothing of it runs any more."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _T], ended: Callable[[], object]) -> None:
        self._loop = loop
        self._work = work
        self._ended = ended
        loop.call_soon_threadsafe(self._begin)

    def cancel(self) -> None:
        """Cancel it; it has begun by then, or is about to."""
        self._loop.call_soon_threadsafe(lambda: self._outcome.cancel())

    def result(self) -> _T:
        """What came of it, once it has ended."""
        return self._outcome.result()

    def _begin(self) -> None:
        try:
            self._outcome: asyncio.Future[_T] = self._loop.create_task(self._work)
        except BaseException as error:  # no coroutine, or a factory of tasks that wants none of it
            self._outcome = self._loop.create_future()
            self._outcome.set_exception(error)
            if asyncio.iscoroutine(self._work):
                self._work.close()
        self._outcome.add_done_callback(self._has_ended)

    def _has_ended(self, outcome: asyncio.Future[_T]) -> None:
        if not outcome.cancelled():
            outcome.exception()  # it is known, also where the one who asked no longer asks for it
        self._ended()


def _tell(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # a loop that was closed, in which nobody waits
        loop.call_soon_threadsafe(ended.set)


async def _end_all(last: Callable[[], Coroutine[Any, Any, object]] | None) -> None:
    working = asyncio.all_tasks() - {asyncio.current_task()}
    for task in working:
        task.cancel()
    if working:
        await asyncio.wait(working)
    if last is not None:
        await last()

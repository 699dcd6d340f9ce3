"""A loop in a thread of its own: what waits, what it refuses, what it leaves. Interrupts and forks: adapters/test_blocking.py."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fable_exec.errors import BrokerGone, Conflict
from fable_exec.loopthread import LoopThread


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    loop = LoopThread("test")
    try:
        yield loop
    finally:
        loop.end()
        assert "fable_exec test" not in {thread.name for thread in threading.enumerate()}


async def answer(value: str) -> str:
    await asyncio.sleep(0)
    return value


async def forever(begun: threading.Event) -> None:
    begun.set()
    await asyncio.Event().wait()


def test_each_waiting_thread_gets_what_came_of_its_own_work(loop: LoopThread) -> None:
    async def fault() -> None:
        raise KeyError("its own")

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda value: loop.wait(answer(value)), "abcdefgh")) == list("abcdefgh")
    with pytest.raises(KeyError, match="its own"):
        loop.wait(fault())


def test_its_end_cancels_what_is_waited_for_and_comes_before_the_last_act(loop: LoopThread) -> None:
    begun, acts = threading.Event(), []

    async def last() -> None:
        acts.append(len(asyncio.all_tasks()))

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(loop.wait, forever(begun))
        assert begun.wait(30)
        loop.end(last)
        with pytest.raises(BrokerGone, match="the test was closed meanwhile"):
            waiting.result(10)
    loop.end(last)
    assert acts == [1]
    with pytest.raises(BrokerGone, match="the test is closed"):
        loop.wait(answer("late"))


def test_work_that_cancels_itself_is_not_taken_for_an_end(loop: LoopThread) -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        loop.wait(cancelled())
    assert loop.wait(answer("on")) == "on"


def test_its_own_thread_is_told_that_it_would_wait_for_itself(loop: LoopThread) -> None:
    async def nested() -> None:
        loop.wait(answer("never"))

    with pytest.raises(Conflict, match="the test's own thread"):
        loop.wait(nested())


def test_another_loop_awaits_what_came_of_its_own_work_and_needs_no_thread(loop: LoopThread) -> None:
    async def fault() -> None:
        raise KeyError("its own")

    async def act() -> None:
        asyncio.get_running_loop().run_in_executor = None  # type: ignore[assignment, method-assign]  # nothing may ask for one
        assert await asyncio.gather(*(loop.wait_elsewhere(answer(each)) for each in "abc")) == list("abc")
        with pytest.raises(KeyError, match="its own"):
            await loop.wait_elsewhere(fault())

    asyncio.run(act())


def test_a_cancellation_in_another_loop_goes_on_once_the_work_has_ended(loop: LoopThread) -> None:
    begun, acts = threading.Event(), []

    async def slow_to_end() -> None:
        try:
            await forever(begun)
        finally:
            await asyncio.sleep(0.05)
            acts.append("ended")

    async def act() -> None:
        waiting = asyncio.ensure_future(loop.wait_elsewhere(slow_to_end()))
        await asyncio.to_thread(begun.wait, 30)
        waiting.cancel()
        await asyncio.sleep(0)
        waiting.cancel()  # as impatient callers do
        with pytest.raises(asyncio.CancelledError):
            await waiting
        acts.append("went on")

    asyncio.run(act())
    assert acts == ["ended", "went on"]


def test_what_was_awaited_by_a_coroutine_that_is_dropped_is_cancelled(loop: LoopThread) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        try:
            await forever(begun)
        finally:
            ended.set()

    async def act() -> None:
        waiting = loop.wait_elsewhere(work())
        waiting.send(None)
        await asyncio.to_thread(begun.wait, 30)
        waiting.close()
        assert await asyncio.to_thread(ended.wait, 30)

    asyncio.run(act())


def test_another_loop_is_told_of_the_end(loop: LoopThread) -> None:
    begun = threading.Event()

    async def act() -> None:
        waiting = asyncio.ensure_future(loop.wait_elsewhere(forever(begun)))
        await asyncio.to_thread(begun.wait, 30)
        await asyncio.to_thread(loop.end)
        with pytest.raises(BrokerGone, match="the test was closed meanwhile"):
            await waiting
        with pytest.raises(BrokerGone, match="the test is closed"):
            await loop.wait_elsewhere(answer("late"))

    asyncio.run(act())


def test_work_that_cannot_begin_is_told_and_not_waited_for(loop: LoopThread) -> None:
    def refusing(running: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
        if getattr(work, "cr_code", None) is answer.__code__:
            raise LookupError("no task today")
        return asyncio.Task(work, loop=running, **more)

    async def refuse() -> None:
        asyncio.get_running_loop().set_task_factory(refusing)

    loop.wait(refuse())
    work = answer("never begun")
    with pytest.raises(LookupError, match="no task today"):
        loop.wait(work)
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
    with pytest.raises(TypeError, match="coroutine"):
        loop.wait("no work")  # type: ignore[arg-type]  # by a caller whom nobody checked
    loop.wait(refuse())

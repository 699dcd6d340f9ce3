"""Many threads, and many tasks, share one broker: every answer belongs to its question, and nothing is left."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fable_exec import AsyncBrokerClient, AsyncExecutionBroker, BrokerClient, ExecutionBroker
from fable_exec.testing.leaks import open_descriptors
from tests.doors import TOKEN, policy_for

pytestmark = pytest.mark.requires_ability("confinement")

QUICK_SECONDS, DEEP_SECONDS = 1.0, 60.0
BLOCKING: list[Callable[..., Any]] = [ExecutionBroker, BrokerClient]
ASYNC: list[Callable[..., Any]] = [AsyncExecutionBroker, AsyncBrokerClient]
DURATIONS = [QUICK_SECONDS, pytest.param(DEEP_SECONDS, marks=[pytest.mark.deep, pytest.mark.timeout(240)])]


def steps(name: str, chance: random.Random) -> Iterator[tuple[str, tuple[Any, ...], Callable[[Any], bool]]]:
    """Without end: a call, its arguments, and whether the answer is the one to exactly this call."""
    for number in range(10**9):
        word = f"{name}-{number}"
        yield "write_file", (f"{name}/file", word), lambda found, word=word: found.total_bytes == len(word)
        yield "inspect_files", (f"{name}/file",), lambda found, word=word: found.content == word
        kind = chance.randrange(8)
        if kind == 0:
            yield "execute_command", (["echo", word],), lambda found, word=word: found.stdout == f"{word}\n" and found.success
        elif kind == 1:
            yield "execute_command", (["cat", "file"], name), lambda found, word=word: found.stdout == word
        elif kind == 2:
            yield "edit_file", (f"{name}/file", word, f"{word}!"), lambda found, word=word: found.total_bytes == len(word) + 1
        elif kind == 3:
            yield "list_directory", (name,), lambda found: [entry.name for entry in found.entries] == ["file"]
        elif kind == 4:
            yield "search_files", (word, name), lambda found, word=word: [match.text for match in found.matches] == [word]
        else:
            yield "probe", (), lambda found: found.writes_enabled


def work(broker: Any, name: str, until: float, wrong: list[str]) -> int:
    done = 0
    for call, arguments, fits in steps(name, random.Random(name)):
        if done and time.monotonic() >= until:
            break
        if not fits(getattr(broker, call)(*arguments)):
            wrong.append(f"{name}: {call}{arguments}")
        done += 1
    return done


async def work_in_loop(broker: Any, name: str, until: float, wrong: list[str]) -> int:
    done = 0
    for call, arguments, fits in steps(name, random.Random(name)):
        if done and time.monotonic() >= until:
            break
        if not fits(await getattr(broker, call)(*arguments)):
            wrong.append(f"{name}: {call}{arguments}")
        done += 1
    return done


@pytest.mark.parametrize("seconds", DURATIONS)
@pytest.mark.parametrize("door", BLOCKING, ids=lambda door: door.__name__)
def test_fifty_threads_share_a_broker(door: Callable[..., Any], seconds: float, workspace: Path) -> None:
    wrong: list[str] = []
    with door(policy_for(workspace)) as broker:
        broker.unlock_writes(TOKEN)
        broker.execute_command(["true"])
        before = len(open_descriptors())
        until = time.monotonic() + seconds
        with ThreadPoolExecutor(50) as pool:
            done = list(pool.map(lambda number: work(broker, f"t{number}", until, wrong), range(50)))
        assert len(open_descriptors()) == before
    assert wrong == []
    assert min(done) > 0


@pytest.mark.parametrize("seconds", DURATIONS)
@pytest.mark.parametrize("door", ASYNC, ids=lambda door: door.__name__)
def test_two_hundred_tasks_share_a_broker(door: Callable[..., Any], seconds: float, workspace: Path) -> None:
    wrong: list[str] = []

    async def all_of_them() -> list[int]:
        async with door(policy_for(workspace)) as broker:
            await broker.unlock_writes(TOKEN)
            await broker.execute_command(["true"])
            until = time.monotonic() + seconds
            return await asyncio.gather(*(work_in_loop(broker, f"a{number}", until, wrong) for number in range(200)))

    done = asyncio.run(all_of_them())
    assert wrong == []
    assert min(done) > 0


@pytest.mark.parametrize("seconds", DURATIONS)
def test_threads_and_tasks_share_the_broker_of_this_process(seconds: float, workspace: Path) -> None:
    wrong: list[str] = []
    done: list[int] = []

    async def tasks(broker: AsyncExecutionBroker, until: float) -> None:
        done.extend(await asyncio.gather(*(work_in_loop(broker, f"a{number}", until, wrong) for number in range(50))))

    async def everything() -> None:
        async with AsyncExecutionBroker(policy_for(workspace)) as broker:
            await broker.unlock_writes(TOKEN)
            until = time.monotonic() + seconds
            threads = [
                threading.Thread(target=lambda name=f"t{number}": done.append(work(broker.blocking, name, until, wrong)))
                for number in range(20)
            ]
            for thread in threads:
                thread.start()
            await tasks(broker, until)
            for thread in threads:
                await asyncio.to_thread(thread.join)

    asyncio.run(everything())
    assert wrong == []
    assert len(done) == 70
    assert min(done) > 0


def test_cancelled_tasks_leave_nothing_running(workspace: Path) -> None:
    async def storm() -> None:
        async with AsyncExecutionBroker(policy_for(workspace)) as broker:
            await broker.unlock_writes(TOKEN)
            running = [
                asyncio.create_task(broker.execute_command(["bash", "-c", "setsid sleep 600 & sleep 600"])) for _ in range(20)
            ]
            await asyncio.sleep(0.2)
            for task in running[:10]:
                task.cancel()
            ended = await asyncio.wait_for(asyncio.gather(*running[:10], return_exceptions=True), 60)
            assert {type(each) for each in ended} == {asyncio.CancelledError}
            assert (await broker.execute_command(["true"])).success
            for task in running[10:]:
                task.cancel()
            await asyncio.gather(*running[10:], return_exceptions=True)

    asyncio.run(storm())

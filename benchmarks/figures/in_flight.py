"""Eight commands in flight at one broker, from threads and on a loop: commands a second."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks import raw
from benchmarks.figure import Figure, at_least, commands_per_second
from benchmarks.measuring import Contestant, interleaved, timed
from benchmarks.peers import ENGINE
from benchmarks.setting import Setting
from fable_exec import AsyncExecutionBroker

IN_FLIGHT = 8
FULL_COUNT = 400
LIMIT = "posix_spawn in C, 8 processes of it: the limit at that moment"
LEAST_PER_SECOND = 1200


def measure(setting: Setting) -> list[Figure]:
    each = setting.size(FULL_COUNT // IN_FLIGHT, least=2)
    count = each * IN_FLIGHT
    unit = commands_per_second(count)
    broker, client = setting.broker(), setting.client()
    threads = in_threads(setting, count)
    loop = setting.enter(asyncio.Runner())
    on_loop = AsyncExecutionBroker(setting.policy())

    contestants = [
        timed("threads", threads(lambda: broker.execute_command(["true"]))),
        timed("asyncio", lambda: loop.run(_on_loop(lambda: on_loop.execute_command(["true"]), count))),
        timed("spawned", threads(lambda: client.execute_command(["true"]))),
        timed("subprocess.run", threads(raw.run_captured)),
        timed("asyncio subprocess", lambda: loop.run(_on_loop(raw.run_on_loop, count))),
    ]
    spawn = setting.enter(raw.compiled_spawners(IN_FLIGHT))
    if spawn is not None:
        contestants.append(Contestant(LIMIT, lambda: spawn(each)))
    contestants += setting.peer(ENGINE, "engine_in_flight", workspace=str(setting.workspace()), threads=IN_FLIGHT, count=count)
    try:
        found = interleaved(contestants, setting.rounds(15), warm_up=1)
    finally:
        loop.run(on_loop.close())
    target, engine = at_least(LEAST_PER_SECOND, unit), found.get(ENGINE)
    rows = (
        ("threads", "8 in flight, threads", "subprocess.run", "subprocess.run in 8 threads", target),
        ("asyncio", "8 in flight, asyncio", "asyncio subprocess", "asyncio subprocess, 8 tasks", target),
        ("spawned", "8 in flight, threads, spawned broker", "subprocess.run", "subprocess.run in 8 threads", None),
    )
    return [
        Figure(
            key=f"in_flight.{name}",
            title=title,
            unit=unit,
            ours=found[name],
            reference=found[reference],
            reference_name=reference_name,
            target=bound,
            peer=engine if name == "threads" else None,
            others={LIMIT: found[LIMIT]} if name == "threads" and LIMIT in found else {},
        )
        for name, title, reference, reference_name, bound in rows
    ]


def in_threads(setting: Setting, count: int) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """What does an act `count` times, IN_FLIGHT of them at a time."""
    pool = setting.enter(ThreadPoolExecutor(IN_FLIGHT))
    return lambda act: lambda: list(pool.map(lambda _: act(), range(count)))


async def _on_loop(act: Callable[[], Awaitable[object]], count: int) -> None:
    left = iter(range(count))

    async def one_after_the_other() -> None:
        for _ in left:
            await act()

    await asyncio.gather(*(one_after_the_other() for _ in range(IN_FLIGHT)))

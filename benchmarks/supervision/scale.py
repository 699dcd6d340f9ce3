"""So many executions at once, and what they cost, looked at from outside. For a process of its own in a PID namespace of its own.

Every job waits at a FIFO in its workspace for the end of what it reads: that moment is chosen here.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from benchmarks.supervision.looking import (
    await_end,
    await_replaced,
    children,
    memory,
    open_descriptors,
    processor_seconds,
    watched,
)
from benchmarks.supervision.metered_zygote import Meter, metered
from fable_exec.supervisor import Execution, ExecutionSpec, Supervisor

__all__ = ["Scene", "Step", "measured"]

THREADS = 16
IDLE_SECONDS = 5.0
REAPED_SECONDS = 0.5
ENDED_ALONE = 60
COUNTED = 12
"""Runs of `true` beside those that are there, for what one more costs."""
FILES = {".lock", "bell", "host-runtime", "run.lock", "runner.log", "state.json", "supervisor.log", "terminal.rec"}
_WAITS = "read line < go; exit {code}"


@attrs.frozen
class Step:
    """How much the next one costs while `live` are there: medians of seconds of wall and processor time."""

    live: int
    wall_seconds: float
    processor_seconds: float


class Scene:
    """A root, workspaces and a supervisor; everything lies below `directory`."""

    def __init__(self, directory: Path, supervisor: Supervisor, pool: ThreadPoolExecutor, meter: Meter) -> None:
        self._directory, self.supervisor, self._pool, self._meter = directory, supervisor, pool, meter
        self._workspaces = 0

    def workspace(self) -> Path:
        self._workspaces += 1
        path = self._directory / "workspaces" / str(self._workspaces)
        path.mkdir(mode=0o700, parents=True)
        os.mkfifo(path / "go", 0o600)
        return path

    def start(self, workspace: Path, *argv: str) -> Execution:
        return self.supervisor.start(ExecutionSpec(argv=argv, workspace=workspace))

    def each(self, act: Callable[[Any], Any], things: list[Any]) -> list[Any]:
        """By THREADS threads, in the order of `things`."""
        return list(self._pool.map(act, things))

    def start_waiting(self, codes: list[int]) -> list[Execution]:
        """Jobs that end with these codes when they are let go."""
        made = [(self.workspace(), code) for code in codes]
        return self.each(lambda each: self.start(each[0], "sh", "-c", _WAITS.format(code=each[1])), made)

    def one_more(self, live: int) -> Step:
        """What `true` costs from its start to the end of its keeper, beside `live` others."""
        workspace = self.workspace()
        walls, used = [], []
        for _ in range(COUNTED):
            count, before = self._meter.read()
            own, start = time.process_time(), time.perf_counter()
            await_end(self.start(workspace, "true").directory)
            walls.append(time.perf_counter() - start)
            used.append(time.process_time() - own + self._meter.read_after(count)[1] - before)
        return Step(live, statistics.median(walls), statistics.median(used))


@contextmanager
def _scene(directory: Path) -> Iterator[Scene]:
    with metered(directory) as meter, Supervisor(directory / "root") as supervisor, ThreadPoolExecutor(THREADS) as pool:
        yield Scene(directory, supervisor, pool, meter)


def measured(directory: Path, count: int) -> dict[str, Any]:
    """Everything, for `count` at once; times in seconds, memory in KiB."""
    with _scene(directory) as scene:
        descriptors = open_descriptors()
        await_end(scene.start(scene.workspace(), "true").directory)  # the zygote and its canary are no part of it
        steps = [scene.one_more(0)]
        some: list[Execution] = []
        for level in (each for each in (10, 100) if each < count):
            some += scene.start_waiting([0] * (level - len(some)))
            steps.append(scene.one_more(level))
        stopping_some = _stopped(scene, some)
        start = time.perf_counter()
        codes = [number % 256 for number in range(count)]
        executions = scene.start_waiting(codes)
        starting = time.perf_counter() - start
        found = {
            "count": count,
            "starting_seconds": starting,
            **_living(executions),
            "one_more": [attrs.asdict(step) for step in (*steps, scene.one_more(count))],
            "stopping_some": [len(some), stopping_some],
            **_ending(scene, executions, codes),
        }
        sleepers = scene.start_waiting([0] * count)
        found |= {"stopping_seconds": _stopped(scene, sleepers), "stopped": _tally(scene, sleepers)}
        found |= _left(scene, [*executions, *sleepers], descriptors)
        return found


def _living(executions: list[Execution]) -> dict[str, Any]:
    """How many run, what they keep in memory, and what they use while nothing happens."""
    keepers = [execution.document["supervisor_pid"] for execution in executions]
    inits = [children(keeper)[0] for keeper in keepers]
    time.sleep(1.0)
    before = sum(map(processor_seconds, (*keepers, *inits)))
    time.sleep(IDLE_SECONDS)
    idle = (sum(map(processor_seconds, (*keepers, *inits))) - before) / IDLE_SECONDS
    return {
        "running": sum(execution.state.value == "running" for execution in executions),
        "idle_share_of_a_core": idle,
        **(_kept_in_memory(keepers, inits) if os.geteuid() == 0 else {}),
        "descriptors_of_a_keeper": max(map(open_descriptors, keepers)),
        "containment": dict(Counter(str(execution.document["containment"]) for execution in executions)),
        "processes": len(_processes()),
    }


def _kept_in_memory(keepers: list[int], inits: list[int]) -> dict[str, float]:
    """For root alone: nobody else may look into an init, which its job's user must not (PR_SET_DUMPABLE)."""
    maps = [(memory(keeper), memory(init)) for keeper, init in zip(keepers, inits, strict=True)]
    return {
        "private_kib": _of_both(maps, "Private_Dirty"),
        "proportional_kib": _of_both(maps, "Pss_Anon"),
        "keeper_private_kib": statistics.median(keeper["Private_Dirty"] for keeper, _ in maps),
        "init_private_kib": statistics.median(init["Private_Dirty"] for _, init in maps),
    }


def _of_both(maps: list[tuple[Mapping[str, int], Mapping[str, int]]], name: str) -> float:
    return statistics.median(keeper[name] + init[name] for keeper, init in maps)


def _ending(scene: Scene, executions: list[Execution], codes: list[int]) -> dict[str, Any]:
    """Some end one by one, each clocked; the others all at once."""
    number = min(ENDED_ALONE, len(executions) // 2)
    alone = executions[:: len(executions) // number][:number]
    delays = sorted(map(_let_go, alone))
    rest = [execution for execution in executions if execution not in alone]
    start = time.perf_counter()
    for execution in rest:
        os.close(os.open(Path(execution.document["workspace"], "go"), os.O_WRONLY))
    scene.each(lambda execution: await_end(execution.directory), rest)
    together = time.perf_counter() - start
    zombies = _lasting_zombies()
    found = [scene.supervisor.get(execution.execution_id) for execution in executions]
    exact = sum(each is not None and each.exit_code == code for each, code in zip(found, codes, strict=True))
    return {
        "exit_to_record_seconds": {
            "p50": statistics.median(delays),
            "p99": delays[math.ceil(0.99 * len(delays)) - 1],
            "of": len(delays),
        },
        "all_ending_seconds": together,
        "exact_codes": exact,
        "zombies_after_exits": zombies,
    }


def _let_go(execution: Execution) -> float:
    """End the job; the seconds until its outcome is in state.json, which comes after the terminal record."""
    with watched(execution.directory) as instance:
        go = os.open(Path(execution.document["workspace"], "go"), os.O_WRONLY)
        start = time.perf_counter()
        os.close(go)
        return await_replaced(instance, "state.json") - start


def _stopped(scene: Scene, executions: list[Execution]) -> float:
    """Seconds from the first request_stop to the last record."""
    start = time.perf_counter()
    scene.each(lambda execution: scene.supervisor.request_stop(execution.execution_id), executions)
    scene.each(lambda execution: await_end(execution.directory), executions)
    return time.perf_counter() - start


def _tally(scene: Scene, executions: list[Execution]) -> dict[str, int]:
    """Why they ended, by what proof."""
    found = [scene.supervisor.get(execution.execution_id) for execution in executions]
    reasons = [
        f"{each.document['termination_reason']}, {each.document['quiescence_proof']}" if each else "none" for each in found
    ]
    return dict(Counter(reasons))


def _left(scene: Scene, executions: list[Execution], descriptors: int) -> dict[str, Any]:
    """What should not be there any more: processes, zombies, descriptors, files."""
    scene.supervisor.close()
    time.sleep(0.5)
    names = Counter(name for execution in executions for name in os.listdir(execution.directory))
    mine = {os.getpid(), 1}
    return {
        "left_processes": len([pid for pid in _processes() if pid not in mine]),
        "left_zombies": _zombies(),
        "left_descriptors": open_descriptors() - descriptors,
        "left_files": sorted(name for name in names if name not in FILES),
    }


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _lasting_zombies() -> int:
    """Those that nobody reaps: whoever ends is one for a moment, until the zygote of this run has waited for it."""
    give_up_at = time.monotonic() + REAPED_SECONDS
    while (found := _zombies()) and time.monotonic() < give_up_at:
        time.sleep(0.01)
    return found


def _zombies() -> int:
    found = 0
    for pid in _processes():
        try:
            found += b") Z " in Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            continue  # it is gone
    return found

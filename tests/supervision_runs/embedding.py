"""Hosts that use supervisors from many threads and tasks at once: every job ends as it should, and the host stays what it was."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import threading
import uuid
from pathlib import Path
from typing import Any

from fable_exec.supervisor import ExecutionSpec, Supervisor
from fable_exec.testing import leaks
from tests.supervision_runs.jobs import spec_of

_PR_GET_CHILD_SUBREAPER = 37
_NEVER_SECONDS = 600.0
"""A step of the loop that waited for a job of this length would keep it from being stopped."""
_libc = ctypes.CDLL(None, use_errno=True)


def standing() -> dict[str, Any]:
    """All of a process that a library could change behind its back."""
    subreaper = ctypes.c_int()
    _libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(subreaper))
    umask = os.umask(0o077)
    os.umask(umask)
    return {
        "handlers": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
        "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "wakeup": _wakeup_descriptor(),
        "timer": signal.getitimer(signal.ITIMER_REAL),
        "limits": [resource.getrlimit(number) for number in range(16)],
        "directory": os.getcwd(),
        "umask": umask,
        "environment": dict(os.environ),
        "subreaper": subreaper.value,
        "session": [os.getsid(0), os.getpgid(0), os.getpriority(os.PRIO_PROCESS, 0), sorted(os.sched_getaffinity(0))],
        "threads": [thread.name for thread in threading.enumerate()],
        "descriptors": sorted(leaks.open_descriptors()),
        "children": sorted(leaks.children()),
    }


def _wakeup_descriptor() -> int:
    found = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(found)
    return found


def changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What of a standing is another now."""
    return {name: [before[name], after[name]] for name in before if before[name] != after[name]}


def in_threads(directory: str, rung: str, threads: int, each: int) -> dict[str, Any]:
    """One supervisor for all threads and one for each, half and half; every thread starts its own jobs and waits for them."""
    before = standing()
    shared = Supervisor(Path(directory) / "root")
    ends: list[tuple[int, int | None]] = []
    faults: list[str] = []

    def live(number: int) -> None:
        own = Supervisor(shared.root) if number % 2 else shared
        try:
            for turn in range(each):
                status = (number * each + turn) % 20
                execution = own.start(_job(directory, rung, number, status))
                ends.append((status, own.wait(execution.execution_id, 60).exit_code))
        except Exception as error:
            faults.append(repr(error)[:300])
        finally:
            if own is not shared:
                own.close()

    running = [threading.Thread(target=live, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    shared.close()
    wrong = [end for end in ends if end[0] != end[1]]
    return {"ended": len(ends), "wrong": wrong, "faults": faults, "changed": changed(before, standing())}


def in_tasks(directory: str, rung: str, tasks: int, each: int) -> dict[str, Any]:
    """The same in one event loop; the first job of each task goes on until all of them are waited for and one task stops them."""
    before = standing()
    supervisor = Supervisor(Path(directory) / "root")
    wrong: list[Any] = []
    waited_for: list[str] = []

    async def live(number: int) -> None:
        for turn in range(each):
            status = (number * each + turn) % 20
            execution = await supervisor.start_async(_job(directory, rung, number, status, 0.02 if turn else _NEVER_SECONDS))
            waiting = asyncio.ensure_future(supervisor.wait_async(execution.execution_id, 60))
            if turn == 0:
                await asyncio.sleep(0)
                waited_for.append(execution.execution_id)
                if len(waited_for) == tasks:
                    for name in waited_for:
                        supervisor.request_stop(name)
            ended = await waiting
            if (ended.exit_code, ended.signal) != ((status, None) if turn else (None, signal.SIGTERM)):
                wrong.append([status, ended.to_members()])

    async def main() -> None:
        await asyncio.gather(*(live(number) for number in range(tasks)))

    asyncio.run(main())
    supervisor.close()
    return {"ended": tasks * each, "wrong": wrong, "changed": changed(before, standing())}


def _job(directory: str, rung: str, number: int, status: int, seconds: float = 0.02) -> ExecutionSpec:
    workspace = Path(directory) / f"w{number}"
    workspace.mkdir(mode=0o700, exist_ok=True)
    return spec_of(workspace, rung, execution_id=str(uuid.uuid4()), seconds=seconds, status=status)

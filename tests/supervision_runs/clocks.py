"""A wall clock that jumps, for this process and every keeper that it starts: a library before libc that adds what a file says.

The kernel's own CLOCK_REALTIME cannot be another for some processes alone (a time namespace shifts the monotonic clocks), and
that of the machine is not a test's to set. So what the kernel itself stamps, as the times of files, stays as it is.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fable_exec.executions import ExecutionDirectory
from fable_exec.supervisor import Execution, Supervisor
from tests.procident.places import YEAR_SECONDS
from tests.supervision_runs.jobs import Evidence, await_keeper
from tests.supervision_runs.places import ending, job
from tests.waiting import until

_SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile long *shift;
__attribute__((constructor)) static void begin(void) {
    int fd = open(getenv("CLOCK_SHIFT"), O_RDONLY | O_CLOEXEC);
    shift = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int answer = real(clock, now);
    if (!answer && clock == CLOCK_REALTIME) now->tv_sec += *shift;
    return answer;
}
time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to) *to = now.tv_sec;
    return now.tv_sec;
}
int gettimeofday(struct timeval *restrict to, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    to->tv_sec = now.tv_sec;
    to->tv_usec = now.tv_nsec / 1000;
    return 0;
}
"""


def jumping(directory: str, rung: str) -> dict[str, Any]:
    """The program `jumps` under a clock that can jump."""
    place = Path(directory)
    (place / "shim.c").write_text(_SHIM)
    (place / "shift").write_bytes(bytes(8))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", place / "shim.so", place / "shim.c"], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(place / "shim.so"), "CLOCK_SHIFT": str(place / "shift")}
    wrapper = place / "python"
    wrapper.write_text(
        "#!/bin/sh\n"
        f"LD_PRELOAD={place}/shim.so CLOCK_SHIFT={place}/shift\n"
        "export LD_PRELOAD CLOCK_SHIFT\n"
        f'exec {sys.executable} "$@"\n'
    )
    wrapper.chmod(0o755)
    argv = [sys.executable, "-m", "tests.supervision_runs.clocks", directory, rung, str(wrapper)]
    finished = subprocess.run(argv, env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


def _set(directory: str, years: int) -> None:
    with (Path(directory) / "shift").open("r+b") as file:
        file.write((years * YEAR_SECONDS).to_bytes(8, sys.byteorder, signed=True))


def jumps(directory: str, rung: str) -> dict[str, Any]:
    """A deadline, a stop, and a dead keeper, each with the clock a year ahead, or back, meanwhile."""
    answer: dict[str, Any] = {}
    with Supervisor(Path(directory) / "root") as supervisor:
        for name, before, after in (("ahead", 0, 1), ("back", 0, -1), ("back from ahead", 1, 0)):
            answer[name] = {
                "deadline": _deadline(supervisor, directory, rung, before, after),
                "stop": _stop(supervisor, directory, rung, before, after),
                "keeper lost": _keeper_lost(supervisor, directory, rung, before, after),
            }
    return answer


def _started(supervisor: Supervisor, directory: str, rung: str, before: int, after: int, **more: Any) -> Execution:
    """One that is started before the jump, and the same that is asked for after it."""
    _set(directory, before)
    spec = job(directory, rung, 60.0, **more)
    execution = supervisor.start(spec)
    until(lambda: Evidence.of(spec.workspace).runners(execution.execution_id))
    _set(directory, after)
    again = supervisor.start(spec)
    assert again.document["supervisor_identity"] == execution.document["supervisor_identity"]
    assert again.health.value == "running"
    return execution


def _deadline(supervisor: Supervisor, directory: str, rung: str, before: int, after: int) -> list[Any]:
    """How it ended, whether not before its time, and by how many years its record was written later than it began."""
    began = time.monotonic()
    execution = _started(supervisor, directory, rung, before, after, hard_timeout_seconds=2.0, heartbeat_seconds=0.1)
    ended = supervisor.wait(execution.execution_id, 30)
    return [ended.document["deadline"], ending(ended), time.monotonic() - began >= 2.0, _years_between(ended)]


def _stop(supervisor: Supervisor, directory: str, rung: str, before: int, after: int) -> list[Any]:
    execution = _started(supervisor, directory, rung, before, after)
    supervisor.request_stop(execution.execution_id)
    ended = supervisor.wait(execution.execution_id, 30)
    return [ending(ended), _years_between(ended)]


def _keeper_lost(supervisor: Supervisor, directory: str, rung: str, before: int, after: int) -> list[Any]:
    execution = _started(supervisor, directory, rung, before, after)
    os.kill(execution.document["supervisor_pid"], signal.SIGKILL)
    supervisor.wait(execution.execution_id, 30)
    told = [each.done.value for each in supervisor.recover()]
    again = [each.done.value for each in supervisor.recover()]
    ended = supervisor.wait(execution.execution_id, 30)
    return [told, again, ending(ended), _years_between(ended)]


def _years_between(execution: Execution) -> int:
    began, ended = (datetime.fromisoformat(execution.document[name]) for name in ("accepted_at", "finished_at"))
    return round((ended - began) / timedelta(seconds=YEAR_SECONDS))


def other_times(directory: str, rung: str, years: int) -> dict[str, Any]:
    """Records that say another time than they were written at, as if the machine's own clock had jumped; the lock's time too."""
    answer: dict[str, Any] = {}
    with Supervisor(Path(directory) / "root") as supervisor:
        for kind in ("stop", "keeper lost"):
            spec = job(directory, rung, 60.0)
            execution = supervisor.start(spec)
            until(lambda spec=spec, name=execution.execution_id: Evidence.of(spec.workspace).runners(name))
            _backdate(execution, years)
            found = supervisor.get(execution.execution_id)
            again = supervisor.start(spec)
            assert found is not None and again.document["runner_pid"] == execution.document["runner_pid"]
            answer[kind] = [found.health.value]
            if kind == "stop":
                supervisor.request_stop(execution.execution_id)
            else:
                os.kill(execution.document["supervisor_pid"], signal.SIGKILL)
                await_keeper(supervisor.root, execution.execution_id)
                answer[kind] += [each.done.value for each in supervisor.recover()]
            answer[kind].append(ending(supervisor.wait(execution.execution_id, 30)))
    return answer


def _backdate(execution: Execution, years: int) -> None:
    directory = ExecutionDirectory.of(execution.directory.parent, execution.execution_id)
    moment = datetime.now(UTC) + timedelta(seconds=years * YEAR_SECONDS)
    with directory.state.locked() as held:
        document = held.require().document
        for name in ("accepted_at", "started_at"):
            document[name] = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        held.write(document)
    os.utime(directory.run_lock, (moment.timestamp(),) * 2)


if __name__ == "__main__":
    sys.executable = sys.argv[3]  # with which programs of the library are started
    print(json.dumps(jumps(*sys.argv[1:3])))

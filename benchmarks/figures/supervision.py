"""Supervised executions one after the other: what one costs, how soon its end is on the disk, how soon a stop is felt."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import raw
from benchmarks.figure import MILLISECONDS, Figure, at_most, times
from benchmarks.measuring import Contestant, Samples, interleaved
from benchmarks.setting import Setting
from benchmarks.supervision.looking import await_end, await_replaced, children, processor_seconds, watched
from benchmarks.supervision.metered_zygote import Meter, metered
from fable_exec.supervisor import Execution, ExecutionSpec, Supervisor

SPAWN = "posix_spawn and wait"
WRITE = "write + fsync + rename + fsync(dir)"
STATE = b"x" * 2500
"""As long as a state with everything in it."""
IDLE_SECONDS, SLEEPERS = 10.0, 3
PYTHON = os.path.realpath(sys.executable)
TELLS_WHEN = """
import os, signal, time
def told(number, frame):
    os.write(fd, b"%d" % time.monotonic_ns())
    os._exit(0)
fd = os.open("told", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
signal.signal(signal.SIGTERM, told)
os.close(os.open("ready", os.O_WRONLY))
signal.pause()
"""


def measure(setting: Setting) -> list[Figure]:
    with metered(setting.workspace()) as meter, Supervisor(setting.workspace() / "root") as supervisor:
        supervised = _Supervised(supervisor, setting, meter)
        return [
            *_overhead(setting, supervised),
            _exit_to_record(setting, supervised),
            _exit_to_wait(setting, supervised),
            _stop_to_signal(setting, supervised),
            _stop_to_end(setting, supervised),
            _idle(setting, supervised),
        ]


class _Supervised:
    """Executions in one workspace of one supervisor, with the policy that an ExecutionSpec has by itself."""

    def __init__(self, supervisor: Supervisor, setting: Setting, meter: Meter) -> None:
        self.supervisor, self.workspace, self._meter = supervisor, setting.workspace(), meter
        self._setting = setting

    def start(self, *argv: str) -> Execution:
        return self.supervisor.start(ExecutionSpec(argv=argv, workspace=self.workspace))

    def start_elsewhere(self, *argv: str) -> Execution:
        """In a workspace of its own, beside the others."""
        return self.supervisor.start(ExecutionSpec(argv=argv, workspace=self._setting.workspace()))

    def about_to_end(self) -> tuple[Execution, int]:
        """A `cat` that ends when the descriptor is closed: that moment is ours to choose."""
        fifo = self.fifo("go")
        execution = self.start("cat", "go")
        go = os.open(fifo, os.O_WRONLY)
        time.sleep(0.005)  # what has to be done after the start is done
        return execution, go

    def fifo(self, name: str) -> Path:
        path = self.workspace / name
        path.unlink(missing_ok=True)
        os.mkfifo(path, 0o600)
        return path

    def used(self, act: Callable[[], object]) -> float:
        """Processor seconds of everybody who has to do with one execution: this process, zygote, keeper, init, and the job."""
        count, before = self._meter.read()
        own = time.process_time()
        act()
        return time.process_time() - own + self._meter.read_after(count)[1] - before


def _overhead(setting: Setting, supervised: _Supervised) -> list[Figure]:
    """Wall and processor time of the same runs."""
    used: dict[str, list[float]] = {"ours": [], SPAWN: []}

    def ours() -> float:
        start, seconds = time.perf_counter(), 0.0

        def act() -> None:
            nonlocal seconds
            await_end(supervised.start("true").directory)
            seconds = time.perf_counter() - start

        used["ours"].append(supervised.used(act))
        return seconds

    def spawned() -> float:
        before, start = _own_seconds(), time.perf_counter()
        os.waitpid(os.posix_spawn(raw.TRUE, [raw.TRUE], os.environ), 0)
        seconds = time.perf_counter() - start
        used[SPAWN].append(_own_seconds() - before)
        return seconds

    written = str(setting.workspace() / "state.json")
    contestants = [
        Contestant("ours", ours),
        Contestant(SPAWN, spawned),
        _clocked(WRITE, lambda: raw.durable_write(written, STATE)),
    ]
    rounds = setting.rounds(100)
    found = interleaved(contestants, rounds)
    cpu = {name: Samples(tuple(seconds[-rounds:])) for name, seconds in used.items()}
    return [
        Figure(
            key="supervision.overhead", title="supervise `true`, start to end, over posix_spawn", unit=MILLISECONDS,
            ours=found["ours"].minus(found[SPAWN]), target=at_most(0.040),
            others={SPAWN: found[SPAWN], WRITE: found[WRITE]},
            note="With three durable writes and the end of the namespace.",
        ),
        Figure(
            key="supervision.processor", title="the same in processor time, all processes", unit=MILLISECONDS,
            ours=cpu["ours"].minus(cpu[SPAWN]), target=at_most(0.015), others={SPAWN: cpu[SPAWN]},
            note="This process, zygote, keeper, init and the job: the keepers' zygote is measured with its keepers waited for.",
        ),
    ]  # fmt: skip


def _own_seconds() -> float:
    used = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def _clocked(name: str, act: Callable[[], object]) -> Contestant:
    def clocked() -> float:
        start = time.perf_counter()
        act()
        return time.perf_counter() - start

    return Contestant(name, clocked)


def _exit_to_record(setting: Setting, supervised: _Supervised) -> Figure:
    to_lock: list[float] = []

    def ours() -> float:
        execution, go = supervised.about_to_end()
        with watched(execution.directory) as instance:
            start = time.perf_counter()
            os.close(go)
            recorded = await_replaced(instance, "state.json") - start
            await_end(execution.directory)
            to_lock.append(time.perf_counter() - start)
        return recorded

    written = str(setting.workspace() / "state.json")
    rounds = setting.rounds(100)
    found = interleaved([Contestant("ours", ours), _clocked(WRITE, lambda: raw.durable_write(written, STATE))], rounds)
    return Figure(
        key="supervision.exit", title="the job's exit to its durable record", unit=MILLISECONDS,
        ours=found["ours"], reference=found[WRITE], reference_name=WRITE, target=at_most(0.010),
        others={"to the end of its keeper": Samples(tuple(to_lock[-rounds:]))},
        note="From the end of what `cat` reads until state.json has the outcome; terminal.rec has it before.",
    )  # fmt: skip


def _exit_to_wait(setting: Setting, supervised: _Supervised) -> Figure:
    """How soon `wait` notices: beside somebody whom the kernel wakes up with the lock of the keeper's life."""

    def until(noticed: Callable[[Execution], object]) -> float:
        execution, go = supervised.about_to_end()
        start = time.perf_counter()
        os.close(go)
        noticed(execution)
        return time.perf_counter() - start

    found = interleaved(
        [
            Contestant("ours", lambda: until(lambda execution: supervised.supervisor.wait(execution.execution_id))),
            Contestant("lock", lambda: until(lambda execution: await_end(execution.directory))),
        ],
        setting.rounds(60),
    )
    return Figure(
        key="supervision.wait", title="the job's exit to the return of `wait`", unit=MILLISECONDS,
        ours=found["ours"], reference=found["lock"], reference_name="flock(2) of the keeper's run.lock", target=times(1.25),
    )  # fmt: skip


def _stop_to_signal(setting: Setting, supervised: _Supervised) -> Figure:
    """A job that writes down when SIGTERM came."""
    job = (PYTHON, "-I", "-S", "-c", TELLS_WHEN)

    def ready() -> Path:
        os.close(os.open(supervised.workspace / "ready", os.O_RDONLY))
        time.sleep(0.005)
        return supervised.workspace / "told"

    def ours() -> float:
        supervised.fifo("ready")
        execution = supervised.start(*job)
        told = ready()
        start = time.monotonic_ns()
        supervised.supervisor.request_stop(execution.execution_id)
        await_end(execution.directory)
        return (int(told.read_text()) - start) / 1e9

    def killed() -> float:
        supervised.fifo("ready")
        with subprocess.Popen(job, cwd=supervised.workspace) as process:
            told = ready()
            start = time.monotonic_ns()
            process.send_signal(signal.SIGTERM)
        return (int(told.read_text()) - start) / 1e9

    found = interleaved([Contestant("ours", ours), Contestant("kill", killed)], setting.rounds(60))
    return Figure(
        key="supervision.stop", title="request_stop to SIGTERM in the job's handler", unit=MILLISECONDS,
        ours=found["ours"], reference=found["kill"], reference_name="kill(2) of a child", target=at_most(0.005),
        note="The request is on the disk before the keeper is told.",
    )  # fmt: skip


def _stop_to_end(setting: Setting, supervised: _Supervised) -> Figure:
    def ours() -> float:
        execution = supervised.start("sleep", "100")
        runner = os.pidfd_open(execution.document["runner_pid"])
        time.sleep(0.005)
        start = time.perf_counter()
        supervised.supervisor.request_stop(execution.execution_id)
        seconds = _await_process(runner) - start
        await_end(execution.directory)
        return seconds

    def killed() -> float:
        process = os.posix_spawn("/bin/sleep", ["sleep", "100"], os.environ)
        handle = os.pidfd_open(process)
        time.sleep(0.005)
        start = time.perf_counter()
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        seconds = _await_process(handle) - start
        os.waitpid(process, 0)
        return seconds

    found = interleaved([Contestant("ours", ours), Contestant("kill", killed)], setting.rounds(60))
    return Figure(
        key="supervision.stopped", title="request_stop to the end of a job that obeys", unit=MILLISECONDS,
        ours=found["ours"], reference=found["kill"], reference_name="pidfd_send_signal to a child", target=at_most(0.015),
    )  # fmt: skip


def _await_process(handle: int) -> float:
    """The moment of its end; the descriptor is closed."""
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    waiting.poll()
    now = time.perf_counter()
    os.close(handle)
    return now


def _idle(setting: Setting, supervised: _Supervised) -> Figure:
    """Keeper and init of jobs that sleep, by their schedstat; scaled to ten seconds where the run is shorter."""
    executions = [supervised.start_elsewhere("sleep", "1000") for _ in range(SLEEPERS)]
    keepers = [execution.document["supervisor_pid"] for execution in executions]
    time.sleep(0.5)  # whatever they do after a start is done, and whoever did it has ended
    pairs = [(keeper, *children(keeper)) for keeper in keepers]
    before = [sum(map(processor_seconds, pair)) for pair in pairs]
    seconds = max(0.5, IDLE_SECONDS * setting.rounds(100) / 100)
    time.sleep(seconds)
    used = [
        (sum(map(processor_seconds, pair)) - start) * IDLE_SECONDS / seconds for pair, start in zip(pairs, before, strict=True)
    ]
    for execution in executions:
        supervised.supervisor.request_stop(execution.execution_id)
    for execution in executions:
        await_end(execution.directory)
    return Figure(
        key="supervision.idle", title="a supervised sleeper, keeper and init in 10 s, processor time", unit=MILLISECONDS,
        ours=Samples(tuple(used)), target=at_most(0.001),
    )  # fmt: skip

"""Processes that embed supervisors: with many threads, event loops, odd signals, closed streams, no room, and forks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import hosts

BEFORE = """
import errno, uuid
from fable_exec.supervisor import Supervisor, zygote
from tests.supervision_runs.embedding import changed, standing
from tests.supervision_runs.jobs import spec_of
place, rung = Path(sys.argv[1]), sys.argv[2]
(place / "workspace").mkdir(parents=True, exist_ok=True)

def job(status, seconds=0.0):
    return spec_of(place / "workspace", rung, execution_id=str(uuid.uuid4()), seconds=seconds, status=status)

def run(supervisor, status):
    ended = supervisor.wait(supervisor.start(job(status)).execution_id, 30)
    return [ended.termination_reason.value, ended.exit_code]
"""


def answer_of(program: str, place: Path, rung: str, *arguments: str) -> Any:
    """As `hosts.answer_of`, with jobs at hand."""
    return hosts.answer_of(BEFORE + _level(program), str(place), rung, *arguments)


def _level(program: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in program.splitlines())


@pytest.mark.parametrize(("threads", "each"), [(8, 2), pytest.param(50, 20, marks=pytest.mark.deep)])
def test_threads_share_supervisors_and_have_their_own(inside: Callable[..., Any], rung: str, threads: int, each: int) -> None:
    answer = inside("in_threads", rung=rung, threads=threads, each=each, timeout=300)
    assert answer == {"ended": threads * each, "wrong": [], "faults": [], "changed": {}}


@pytest.mark.parametrize(("tasks", "each"), [(8, 2), pytest.param(50, 20, marks=pytest.mark.deep)])
def test_tasks_of_one_loop_start_and_wait(inside: Callable[..., Any], rung: str, tasks: int, each: int) -> None:
    answer = inside("in_tasks", rung=rung, tasks=tasks, each=each, timeout=300)
    assert answer == {"ended": tasks * each, "wrong": [], "changed": {}}


def test_the_host_keeps_all_that_is_its_own(tmp_path: Path, rung: str) -> None:
    """While a job goes on that it started, too: keeper and job are no children of it, and no thread waits for them."""
    program = """
    before = standing()
    with Supervisor(place / "root") as supervisor:
        found = [run(supervisor, 7)]
        goes_on = supervisor.start(job(8, seconds=0.3))
        during = changed(before, standing())
    after = changed(before, standing())
    ended = Supervisor(place / "root").wait(goes_on.execution_id, 30)
    answer([found, sorted(during), len(during["children"][1]) - len(before["children"]), after, ended.exit_code])
    """
    found, during, children, after, status = answer_of(program, tmp_path, rung)
    assert found == [["crashed", 7]]
    assert (during, children) == (["children", "descriptors"], 1)  # the zygote, its socket and its handle
    assert (after, status) == ({}, 8)


@pytest.mark.parametrize("kind", ["ignored", "blocked", "reaped by another"])
def test_a_host_to_which_sigchld_means_nothing(tmp_path: Path, rung: str, kind: str) -> None:
    program = """
    kind = sys.argv[3]
    if kind == "ignored":
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    if kind == "blocked":
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    stop = threading.Event()
    def reap():
        while not stop.wait(0.001):
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pass
    if kind == "reaped by another":
        threading.Thread(target=reap).start()
    zygote._CLOSE_SECONDS = 600.0  # its end is seen, not waited for so long
    supervisor = Supervisor(place / "root")
    ends = [run(supervisor, 9) for _ in range(3)]
    supervisor.close()
    stop.set()
    answer(ends)
    """
    assert answer_of(program, tmp_path, rung, kind) == [["crashed", 9]] * 3


@pytest.mark.parametrize("closed", ["0", "1", "2", "01", "012"])
def test_a_host_whose_standard_streams_are_closed(tmp_path: Path, rung: str, closed: str) -> None:
    program = """
    for descriptor in sys.argv[3]:
        os.close(int(descriptor))
    with Supervisor(place / "root") as supervisor:
        answer([run(supervisor, 9), len(os.listdir(place / "root"))])
    os._exit(0)
    """
    assert answer_of(program, tmp_path, rung, closed) == [["crashed", 9], 2]  # the execution, and the locks of workspaces


def test_a_host_without_room_for_descriptors_is_told_so_and_can_ask_again(tmp_path: Path, rung: str) -> None:
    """With each number of descriptors that are left: it runs, or a typed error says why not, and once there is room it runs."""
    program = """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    supervisor = Supervisor(place / "root")
    if sys.argv[3] == "started":
        run(supervisor, 1)
    before = len(os.listdir("/proc/self/fd"))
    seen, ends = set(), []
    for room in range(0, 20, 1 if sys.argv[3] == "started" else 4):
        if sys.argv[3] == "fresh":
            supervisor.close()
            supervisor = Supervisor(place / "root")
        wanted = job(5)
        highest = max(map(int, os.listdir("/proc/self/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (before + room, hard))
        try:
            supervisor.start(wanted)
            seen.add("started")
        except (LaunchFailed, OSError) as failure:
            # Of what is on its way between processes the kernel counts all that the user's have (unix(7), ETOOMANYREFS).
            seen.add("told" if failure.errno in (errno.EMFILE, errno.ETOOMANYREFS) else repr(failure))
        except FableExecError as failure:
            seen.add(repr(failure))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        supervisor.start(wanted)
        ends.append(supervisor.wait(wanted.execution_id, 30).exit_code)
        left = len(os.listdir("/proc/self/fd")) - before
        assert left == 0 or sys.argv[3] == "fresh", (room, left)
    supervisor.close()
    answer([sorted(seen), ends])
    """
    for kind in ("started", "fresh"):
        seen, ends = answer_of(program, tmp_path, rung, kind)
        assert (seen, set(ends)) == (["started", "told"], {5})


def test_a_forked_host_may_use_the_supervisor_on_both_sides(tmp_path: Path, rung: str) -> None:
    program = """
    supervisor = Supervisor(place / "root")
    first = run(supervisor, 1)
    goes_on = supervisor.start(job(2, seconds=0.5))
    (place / "other").mkdir()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        inner = spec_of(place / "other", rung, execution_id=str(uuid.uuid4()), seconds=0.0, status=3)
        told = [supervisor.get(goes_on.execution_id).state.value]
        told.append(supervisor.wait(supervisor.start(inner).execution_id, 30).exit_code)
        if sys.argv[3] == "closes":
            supervisor.close()
        os.write(writing, json.dumps(told).encode())
        os._exit(0)
    os.close(writing)
    inside = json.loads(os.read(reading, 999))
    os.waitpid(child, 0)
    ended = supervisor.wait(goes_on.execution_id, 30).exit_code
    answer([first[1], inside, ended, run(supervisor, 4)[1]])
    supervisor.close()
    """
    for kind in ("closes", "just exits"):
        assert answer_of(program, tmp_path / kind.replace(" ", "-"), rung, kind) == [1, ["running", 3], 2, 4]

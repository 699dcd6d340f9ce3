"""One execution in the foreground: its output is ours, our signals are its stop, its status is ours."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fable_exec.executions import ExecutionDirectory
from fable_exec.lifecycle import TerminalReason
from fable_exec.supervisor import Execution, Supervisor
from tests.hosts import PROJECT
from tests.supervisor.jobs import Jobs, kill_keeper
from tests.waiting import LONG_SECONDS, until

_PROGRAM = """
import sys
from pathlib import Path
from fable_exec.supervisor import Supervisor
from tests.supervisor.jobs import make_spec
root, workspace, wanted, *argv = sys.argv[1:]
with Supervisor(root) as supervisor:
    status = supervisor.run_foreground(make_spec(Path(workspace), *argv, execution_id=wanted))
sys.exit(status)
"""


class Foreground:
    """A process that runs one execution in the foreground."""

    def __init__(self, jobs: Jobs, *argv: str, execution_id: str | None = None, **options: Any) -> None:
        self.jobs = jobs
        self.execution_id = execution_id or str(uuid.uuid4())
        words = [str(jobs.supervisor.root), str(jobs.workspace()), self.execution_id, *argv]
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *words], cwd=PROJECT, **{"stdout": subprocess.PIPE, **options}
        )

    def signals_are_ours(self) -> None:
        """Wait until its handlers are installed."""
        until(lambda: caught_signals(self.process.pid) & (1 << (signal.SIGTERM - 1)))

    def running(self) -> Execution:
        found: Execution = until(lambda: self.looked())
        return found

    def looked(self) -> Execution | None:
        found = self.jobs.supervisor.get(self.execution_id)
        return found if found is not None and found.document["started_at"] else None

    def ended(self) -> Execution:
        return self.jobs.note(self.jobs.supervisor.wait(self.execution_id, LONG_SECONDS))


def caught_signals(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))


@pytest.fixture
def run(jobs: Jobs) -> Iterator[Any]:
    started: list[Foreground] = []

    def begin(*argv: str, **options: Any) -> Foreground:
        started.append(Foreground(jobs, *argv, **options))
        return started[-1]

    yield begin
    for each in started:
        each.process.kill()
        each.process.wait()
        if each.process.stdout is not None:
            each.process.stdout.close()
        found = jobs.supervisor.get(each.execution_id)
        if found is not None:
            jobs.note(found)


def test_output_and_status_are_the_jobs(run: Any) -> None:
    one = run("bash", "-c", "echo one; sleep 0.1; echo two >&2; exit 7")
    output, _ = one.process.communicate(timeout=LONG_SECONDS)
    assert (output, one.process.returncode) == (b"one\ntwo\n", 7)
    assert one.ended().exit_code == 7


def test_output_of_many_pieces_is_passed_on_whole(run: Any) -> None:
    one = run("bash", "-c", "head -c 5000000 /dev/zero | tr '\\0' x; echo end")
    output, _ = one.process.communicate(timeout=LONG_SECONDS)
    assert (len(output), output[-5:], one.process.returncode) == (5000004, b"xend\n", 0)


def test_a_file_gets_it_too(run: Any, tmp_path: Path) -> None:
    with open(tmp_path / "output", "wb") as file:
        one = run("bash", "-c", "head -c 300000 /dev/zero", stdout=file)
        assert one.process.wait(LONG_SECONDS) == 0
    assert (tmp_path / "output").stat().st_size == 300000


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_us_is_a_stop_of_the_job(run: Any, number: signal.Signals) -> None:
    one = run("bash", "-c", "trap 'echo told; exit 9' TERM; echo ready; while :; do sleep 0.01; done")
    assert one.process.stdout.readline() == b"ready\n"
    one.process.send_signal(number)
    output, _ = one.process.communicate(timeout=LONG_SECONDS)
    assert (output[-5:], one.process.returncode) == (b"told\n", 9)
    found = one.ended()
    assert (found.termination_reason, found.exit_status) == (TerminalReason.STOPPED, 9)


def test_a_job_that_a_signal_ended_is_told_as_shells_do(run: Any) -> None:
    one = run("bash", "-c", "kill -9 $$")
    assert one.process.wait(LONG_SECONDS) == 137


def test_a_signal_before_the_state_exists_is_honoured(run: Any, jobs: Jobs) -> None:
    """The keeper waits for the lock of the state, which the test holds."""
    directory = ExecutionDirectory.of(jobs.supervisor.root, str(uuid.uuid4()))
    directory.make()
    lock = os.open(directory.path / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    one = run("sleep", "600", execution_id=directory.execution_id)
    one.signals_are_ours()
    one.process.send_signal(signal.SIGTERM)
    until(lambda: not pending_signals(one.process.pid))
    assert jobs.supervisor.get(directory.execution_id) is None
    os.close(lock)
    assert one.process.wait(LONG_SECONDS) in (143, 127)
    assert one.ended().termination_reason in (TerminalReason.STOPPED, TerminalReason.LAUNCH_FAILED)


def pending_signals(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd:", "ShdPnd:")))


def test_handlers_are_there_before_the_execution_is(run: Any, jobs: Jobs) -> None:
    for _ in range(5):
        one = run("sleep", "600")
        until(lambda one=one: jobs.supervisor.get(one.execution_id))
        assert caught_signals(one.process.pid) & (1 << (signal.SIGHUP - 1))
        one.process.send_signal(signal.SIGHUP)
        assert one.process.wait(LONG_SECONDS) in (143, 127)


def test_a_hangup_that_was_ignored_ends_nothing(run: Any) -> None:
    """As under nohup(1)."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        one = run("bash", "-c", "sleep 0.3; exit 6")
    finally:
        signal.signal(signal.SIGHUP, before)
    one.signals_are_ours()
    one.process.send_signal(signal.SIGHUP)
    assert one.process.wait(LONG_SECONDS) == 6


def test_output_that_nobody_reads_holds_up_neither_the_job_nor_a_stop(run: Any) -> None:
    one = run("bash", "-c", "head -c 1000000 /dev/zero; exec sleep 600")
    until(lambda: one.looked() and one.running().runner_log.stat().st_size == 1000000)
    one.process.send_signal(signal.SIGTERM)
    assert one.process.wait(LONG_SECONDS) == 143


def test_a_reader_that_goes_away_ends_nothing(run: Any) -> None:
    one = run("bash", "-c", "echo ready; sleep 0.3; head -c 1000000 /dev/zero; exit 6")
    assert one.process.stdout.readline() == b"ready\n"
    one.process.stdout.close()
    assert one.process.wait(LONG_SECONDS) == 6


def test_its_own_death_ends_no_job(run: Any, jobs: Jobs) -> None:
    one = run("bash", "-c", "sleep 1.5; exit 8")
    one.running()
    one.process.kill()
    assert one.ended().exit_code == 8


def test_a_dead_keeper_is_told_by_125(run: Any) -> None:
    one = run("sleep", "600")
    kill_keeper(one.running())
    assert one.process.wait(LONG_SECONDS) == 125


def test_one_that_runs_already_is_joined(run: Any, jobs: Jobs) -> None:
    one = run("bash", "-c", "echo first; sleep 0.5; echo second; exit 3")
    spec_of_the_same = (str(jobs.supervisor.root), one.running().document["workspace"], one.execution_id)
    argv = [sys.executable, "-c", _PROGRAM, *spec_of_the_same, *one.running().document["argv"]]
    joined = subprocess.run(argv, cwd=PROJECT, capture_output=True, timeout=LONG_SECONDS)
    assert (joined.stdout, joined.returncode) == (b"first\nsecond\n", 3)


def test_its_handlers_are_taken_back(tmp_path: Path, workspace: Path) -> None:
    program = f"""
import signal, sys
from pathlib import Path
from fable_exec.supervisor import Supervisor
from tests.supervisor.jobs import make_spec
before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
with Supervisor({str(tmp_path / "root")!r}) as supervisor:
    supervisor.run_foreground(make_spec(Path({str(workspace)!r}), "true"))
assert before == [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
assert signal.set_wakeup_fd(-1) == -1
"""
    finished = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, timeout=LONG_SECONDS)
    assert finished.returncode == 0, finished.stderr


def test_what_cannot_start_is_told_by_127(supervisor: Supervisor, tmp_path: Path, workspace: Path) -> None:
    program = f"""
import sys
from fable_exec.supervisor import ExecutionSpec, Supervisor
with Supervisor({str(tmp_path / "root")!r}) as supervisor:
    sys.exit(supervisor.run_foreground(ExecutionSpec(argv=("/nonexistent/program",), workspace={str(workspace)!r})))
"""
    finished = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, timeout=LONG_SECONDS)
    assert finished.returncode == 127, finished.stderr

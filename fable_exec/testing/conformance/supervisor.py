"""The suite that a supervisor passes: jobs start once, end exactly, can be stopped and recovered, and leave nothing."""

from __future__ import annotations

import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest

from fable_exec.errors import Conflict, UnknownExecution
from fable_exec.lifecycle import TerminalReason
from fable_exec.policy import BrokerPolicy, Confinement
from fable_exec.supervisor import Execution, ExecutionSpec
from fable_exec.testing.faces import Face, blocking
from fable_exec.testing.processes import alive_with, end_all_with, unique_word

__all__ = ["Jobs", "SupervisorConformance"]

LONG_SECONDS = 60.0
"""For what must come at all."""
_BEFORE = "import os, signal, sys, time; ARGUMENTS = sys.argv[1:-1]\n"
_TREE = "os.fork() or os.setsid(); print('up', flush=True); time.sleep(60)"


@attrs.frozen
class Jobs:
    """A supervisor at work for one check.

    Args:
        supervisor: the supervisor under test, with blocking calls.
        root: where its executions lie.
        directory: where workspaces are made.
        marker: a word in the command line of every job of this check.
    """

    supervisor: Face
    root: Path
    directory: Path
    python: str
    confinement: Confinement
    marker: str = attrs.field(factory=unique_word)

    def workspace(self) -> Path:
        """A new one."""
        path = self.directory / f"workspace-{uuid.uuid4().hex[:8]}"
        path.mkdir(mode=0o700)
        return path

    def spec(self, program: str, *arguments: str, workspace: Path | None = None, **more: Any) -> ExecutionSpec:
        """A job that is a Python program: `os`, `signal`, `sys`, `time` and `ARGUMENTS` are there."""
        place = workspace or self.workspace()
        policy = BrokerPolicy(workspace=place, allowed_executables=(self.python,), confinement=self.confinement)
        argv = [self.python, "-I", "-S", "-c", _BEFORE + program, *arguments, self.marker]
        return ExecutionSpec(argv=argv, workspace=place, policy=policy, **{"stop_grace_seconds": 1.0, **more})

    def start(self, program: str, *arguments: str, **more: Any) -> Execution:
        """Start such a job."""
        found: Execution = self.supervisor.start(self.spec(program, *arguments, **more))
        return found

    def ended(self, program: str, *arguments: str, **more: Any) -> Execution:
        """Start it and wait for its end."""
        return self.wait(self.start(program, *arguments, **more))

    def wait(self, job: Execution) -> Execution:
        """It as it is when it has ended."""
        found: Execution = self.supervisor.wait(job.execution_id, LONG_SECONDS)
        return found

    def alive(self, how_many: int) -> list[int]:
        """Wait until so many processes of this check are alive."""
        found: list[int] = _until(lambda: seen if len(seen := alive_with(self.marker)) == how_many else [])
        return found

    def left(self) -> list[int]:
        """Living processes of this check, which are ended now."""
        found = alive_with(self.marker)
        end_all_with(self.marker)
        return found


class SupervisorConformance:
    """Subclass it in a test module, as a class whose name begins with Test, and give `make_supervisor`::

        class TestMySupervisor(SupervisorConformance):
            def make_supervisor(self, root):
                return MySupervisor(root)

    See docs/how-to/test-your-plugin.md.
    """

    python: ClassVar[str] = os.path.realpath(sys.executable)
    """The interpreter of all jobs, which no policy of the suite goes beyond."""
    confinement: ClassVar[Confinement] = Confinement()
    """What jobs are confined to. On a host that cannot hold the default, say here what your supervisor is used with."""

    def make_supervisor(self, root: Path) -> Any:
        """The supervisor under test over `root`: a Supervisor or anything with its calls, blocking or asyncio.

        To be given by the subclass. It may be awaitable, and is asked for again over one root. The suite closes what it returns.
        """
        raise NotImplementedError("a subclass of SupervisorConformance says in make_supervisor(root) what is to be tested")

    @contextmanager
    def opened(self, directory: Path) -> Iterator[Jobs]:
        """A supervisor under a root of its own in `directory`, closed afterwards; nothing of its jobs is alive then."""
        with ExitStack() as stack:
            jobs = self._over(directory / "executions", directory, stack)
            try:
                yield jobs
            finally:
                left = jobs.left()
        assert left == [], "processes of jobs were alive when the check was over"

    @pytest.fixture
    def jobs(self, tmp_path: Path) -> Iterator[Jobs]:
        """A supervisor for one check."""
        with self.opened(tmp_path.resolve()) as jobs:
            yield jobs

    def _over(self, root: Path, directory: Path, stack: ExitStack) -> Jobs:
        supervisor = stack.enter_context(blocking(self.make_supervisor(root)))
        stack.callback(supervisor.close)
        return Jobs(supervisor, root, directory, self.python, self.confinement)

    # How a job ends.

    def test_the_end_is_told_exactly(self, jobs: Jobs) -> None:
        for code, reason in ((0, TerminalReason.COMPLETED), (3, TerminalReason.CRASHED), (255, TerminalReason.CRASHED)):
            ended = jobs.ended("sys.exit(int(ARGUMENTS[0]))", str(code))
            assert (ended.is_over, ended.exit_code, ended.signal, ended.termination_reason) == (True, code, None, reason)

    def test_what_a_job_said_is_kept_whole(self, jobs: Jobs) -> None:
        piece = bytes(range(256))
        ended = jobs.ended("os.write(1, bytes(range(256)) * 200); os.write(2, bytes(range(256)) * 200)")
        assert b"".join(jobs.supervisor.logs(ended.execution_id)) == piece * 400

    def test_a_stop_ends_the_whole_tree(self, jobs: Jobs) -> None:
        job = jobs.start("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + _TREE)
        jobs.alive(2)
        jobs.supervisor.request_stop(job.execution_id)
        ended = jobs.wait(job)
        assert jobs.left() == [], "processes outlived the stop of their job"
        assert (ended.is_over, ended.termination_reason) == (True, TerminalReason.STOPPED)
        again = jobs.supervisor.request_stop(job.execution_id)
        assert again.termination_reason is TerminalReason.STOPPED

    def test_a_deadline_ends_the_whole_tree(self, jobs: Jobs) -> None:
        ended = jobs.ended(_TREE, hard_timeout_seconds=1.0)
        assert jobs.left() == [], "processes outlived the deadline of their job"
        assert ended.termination_reason is TerminalReason.TIMED_OUT
        assert b"up\n" in b"".join(jobs.supervisor.logs(ended.execution_id))

    def test_what_a_job_leaves_is_ended_and_told(self, jobs: Jobs) -> None:
        ended = jobs.ended("os.fork() or (os.setsid(), time.sleep(60))", descendant_grace_seconds=0.2)
        assert jobs.left() == [], "a process outlived the job that started it"
        assert (ended.termination_reason, ended.exit_code) == (TerminalReason.DESCENDANTS_TERMINATED, 0)

    # Once, and found again.

    def test_the_same_request_is_the_same_execution(self, jobs: Jobs) -> None:
        execution_id = str(uuid.uuid4())
        spec = jobs.spec("open('ran', 'a').write('x')", execution_id=execution_id)
        first = jobs.supervisor.start(spec)
        jobs.wait(first)
        again = jobs.supervisor.start(spec)
        assert (again.execution_id, again.exit_code, again.is_over) == (execution_id, 0, True)
        assert (spec.workspace / "ran").read_text() == "x", "a repeated request ran the job again"
        with pytest.raises(Conflict):
            jobs.supervisor.start(attrs.evolve(spec, argv=(*spec.argv, "another")))
        assert (spec.workspace / "ran").read_text() == "x"

    def test_a_workspace_has_one_live_job(self, jobs: Jobs) -> None:
        first = jobs.start(_TREE)
        with pytest.raises(Conflict):
            jobs.start("open('ran', 'w')", workspace=Path(first.document["workspace"]))
        assert not (Path(first.document["workspace"]) / "ran").exists()
        jobs.supervisor.request_stop(first.execution_id)
        jobs.wait(first)
        assert jobs.ended("pass", workspace=Path(first.document["workspace"])).exit_code == 0

    def test_a_job_outlives_the_supervisor_that_started_it(self, jobs: Jobs) -> None:
        job = jobs.start("time.sleep(0.3); sys.exit(7)")
        jobs.supervisor.close()
        with ExitStack() as stack:
            other = self._over(jobs.root, jobs.directory, stack)
            assert [each.execution_id for each in other.supervisor.list()] == [job.execution_id]
            assert other.wait(job).exit_code == 7

    def test_an_id_that_nothing_was_accepted_under_is_unknown(self, jobs: Jobs) -> None:
        nobody = str(uuid.uuid4())
        assert jobs.supervisor.get(nobody) is None
        for ask in (jobs.supervisor.wait, jobs.supervisor.request_stop, lambda each: list(jobs.supervisor.logs(each))):
            with pytest.raises(UnknownExecution):
                ask(nobody)

    def test_a_job_whose_keeper_died_is_recovered_once(self, jobs: Jobs) -> None:
        job = jobs.start(_TREE)
        jobs.alive(2)
        os.kill(job.document["supervisor_pid"], signal.SIGKILL)
        found = _until(lambda: each if (each := jobs.supervisor.get(job.execution_id)).health.value in _KEPT_BY_NOBODY else None)
        assert not found.is_over
        assert [each.execution_id for each in jobs.supervisor.recover()] == [job.execution_id]
        ended = jobs.supervisor.get(job.execution_id)
        assert (ended.is_over, ended.termination_reason) == (True, TerminalReason.KEEPER_LOST)
        assert jobs.left() == [], "processes outlived the recovery of their job"
        assert jobs.supervisor.recover() == []


_KEPT_BY_NOBODY = ("lost", "orphaned")


def _until(look: Callable[[], Any]) -> Any:
    """Wait for what nothing tells."""
    give_up_at = time.monotonic() + LONG_SECONDS
    while not (found := look()):
        assert time.monotonic() < give_up_at, "it did not come"
        time.sleep(0.02)
    return found

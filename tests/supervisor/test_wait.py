"""Waiting for the end of an execution: for the keeper's, by a handle or by its lock, blocking and for an event loop."""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from fable_exec._launcher.proctree import children
from fable_exec.errors import InvalidRequest, UnknownExecution
from fable_exec.executions.holding import is_held
from fable_exec.lifecycle import Health, TerminalReason
from fable_exec.supervisor import Execution, Supervisor
from fable_exec.testing.leaks import nothing_left
from tests.bounds import bounds
from tests.supervisor.jobs import Jobs, kill_keeper, make_spec
from tests.waiting import LONG_SECONDS

UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"
GIVEN_ID = "00000000-0000-4000-8000-000000000001"


def test_waiting_returns_the_end_with_its_status(jobs: Jobs) -> None:
    execution = jobs.shell("until [ -e end ]; do sleep 0.02; done; exit 7")
    assert not execution.is_over
    Path(execution.document["workspace"], "end").touch()
    found = jobs.supervisor.wait(execution.execution_id)
    assert (found.is_over, found.exit_code, found.exit_status) == (True, 7, 7)
    assert found.health is Health.EXITED


def test_the_workspace_is_free_when_waiting_is_over(jobs: Jobs) -> None:
    workspace = jobs.workspace()
    for _ in range(10):
        execution = jobs.note(jobs.supervisor.start(make_spec(workspace, "true")))
        assert jobs.supervisor.wait(execution.execution_id, LONG_SECONDS).termination_reason is TerminalReason.COMPLETED
        assert not is_held(execution.directory / "run.lock")


def test_waiting_does_not_look_again_and_again(jobs: Jobs) -> None:
    execution = jobs.sleeper()
    before = resource.getrusage(resource.RUSAGE_THREAD)
    with pytest.raises(TimeoutError, match="has not ended within 1 s"):
        jobs.supervisor.wait(execution.execution_id, 1)
    after = resource.getrusage(resource.RUSAGE_THREAD)
    assert after.ru_nvcsw - before.ru_nvcsw < 10  # how often the kernel put this thread to sleep


@pytest.mark.parametrize("bound_seconds", bounds(1.0))
def test_a_wait_of_no_time_only_looks(jobs: Jobs, bound_seconds: float) -> None:
    execution = jobs.sleeper()
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        jobs.supervisor.wait(execution.execution_id, 0)
    assert time.monotonic() - began < bound_seconds


def test_a_keeper_that_dies_without_an_outcome_is_not_waited_for(jobs: Jobs) -> None:
    execution = jobs.sleeper()
    kill_keeper(execution)
    found = jobs.supervisor.wait(execution.execution_id, LONG_SECONDS)
    assert not found.is_over
    assert found.health in (Health.LOST, Health.ORPHANED)
    assert found.exit_status == 125


@pytest.mark.parametrize("name", [UNKNOWN_ID, UNKNOWN_ID.upper()])
def test_an_unknown_id_is_told(supervisor: Supervisor, name: str) -> None:
    calls: list[Any] = [supervisor.wait, supervisor.request_stop, supervisor.events, supervisor.logs]
    for call in calls:
        with pytest.raises(UnknownExecution) as caught:
            call(name)
        assert caught.value.execution_id == UNKNOWN_ID
        assert isinstance(caught.value, LookupError)
    with pytest.raises(UnknownExecution):
        asyncio.run(supervisor.wait_async(name))
    assert supervisor.get(name) is None


def test_what_is_no_uuid_is_an_invalid_request(supervisor: Supervisor) -> None:
    calls: list[Any] = [supervisor.wait, supervisor.request_stop, supervisor.events, supervisor.logs, supervisor.get]
    for call in calls:
        with pytest.raises(InvalidRequest, match="must be a valid UUID"):
            call("../state")


def test_where_the_keeper_cannot_be_identified_its_lock_is_waited_for(jobs: Jobs) -> None:
    execution = jobs.shell("sleep 0.3; exit 3")
    hidden = {**execution.document["supervisor_identity"], "birth_token": None, "unique_id": None, "boot_id": ""}
    jobs.rewrite(execution, supervisor_identity=hidden)
    assert jobs.supervisor.wait(execution.execution_id, LONG_SECONDS).exit_code == 3


class TestAsync:
    def test_it_waits_without_a_thread(self, jobs: Jobs) -> None:
        async def run() -> Execution:
            waiting = asyncio.ensure_future(jobs.supervisor.wait_async(execution.execution_id))
            await asyncio.sleep(0.05)
            assert threading.active_count() == before
            return await waiting

        execution = jobs.shell("sleep 0.3; exit 9")
        before = threading.active_count()
        with nothing_left():
            assert asyncio.run(run()).exit_code == 9

    def test_a_hundred_wait_at_once(self, jobs: Jobs) -> None:
        async def run() -> list[Execution]:
            return await asyncio.gather(*(jobs.supervisor.wait_async(execution.execution_id, LONG_SECONDS) for _ in range(100)))

        execution = jobs.shell("sleep 0.2; exit 4")
        assert {found.exit_code for found in asyncio.run(run())} == {4}

    def test_its_time_runs_out(self, jobs: Jobs) -> None:
        execution = jobs.sleeper()
        with nothing_left(), pytest.raises(TimeoutError):
            asyncio.run(jobs.supervisor.wait_async(execution.execution_id, 0.05))

    def test_it_can_be_cancelled(self, jobs: Jobs) -> None:
        async def run() -> None:
            waiting = asyncio.ensure_future(jobs.supervisor.wait_async(execution.execution_id))
            await asyncio.sleep(0.05)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

        execution = jobs.sleeper()
        with nothing_left():
            asyncio.run(run())
        assert jobs.supervisor.get(execution.execution_id).health is Health.RUNNING

    def test_a_job_is_started_from_a_loop_that_goes_on(self, jobs: Jobs) -> None:
        """Only the loop lets go on who is to answer: a step of it that waited for the answer would wait for ever."""

        async def run() -> Execution:
            await supervisor.start_async(jobs.spec("true"))
            (zygote,) = set(children(os.getpid())) - before
            os.kill(zygote, signal.SIGSTOP)
            try:
                starting = asyncio.ensure_future(supervisor.start_async(jobs.spec("bash", "-c", "exit 6")))
                await asyncio.sleep(0.3)
                assert not starting.done()
            finally:
                os.kill(zygote, signal.SIGCONT)
            return await supervisor.wait_async((await starting).execution_id)

        before = set(children(os.getpid()))
        with nothing_left(), Supervisor(jobs.supervisor.root) as supervisor:
            found = asyncio.run(run())
        assert found.exit_code == 6

    def test_a_cancelled_start_leaves_nothing_open(self, jobs: Jobs) -> None:
        async def run(spec: Any) -> None:
            starting = asyncio.ensure_future(supervisor.start_async(spec))
            await asyncio.sleep(0.01)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting

        with nothing_left(), Supervisor(jobs.supervisor.root) as supervisor:
            spec = jobs.spec("sleep", "600", execution_id=GIVEN_ID)
            asyncio.run(run(spec))
            jobs.note(supervisor.start(spec))  # it may run already or not: it is the same one


def test_waiting_in_another_pid_namespace_ends_with_the_job(jobs: Jobs, pid_box: Any) -> None:
    execution = jobs.shell("sleep 1; exit 5")
    program = f"""
    import sys
    sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r})
    from fable_exec.supervisor import Supervisor
    print(Supervisor({str(jobs.supervisor.root)!r}).wait({execution.execution_id!r}, 20).exit_code)
    """
    finished = pid_box(program)
    assert finished.stdout.strip() == "5", finished


def test_a_keeper_that_hangs_after_its_outcome_is_recorded_holds_nobody_up(jobs: Jobs) -> None:
    execution = jobs.ended()
    lock = os.open(execution.directory / "run.lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert jobs.supervisor.wait(execution.execution_id, LONG_SECONDS).is_over
    finally:
        os.close(lock)

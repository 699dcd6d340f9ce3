"""A stop request: durable, once, only where a keeper that can be verified is there, and heard at once."""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from fable_exec.errors import IdentityLost, StateUnreadable
from fable_exec.lifecycle import TerminalReason
from fable_exec.procident import identify
from tests.supervisor.jobs import Jobs, kill_keeper
from tests.waiting import LONG_SECONDS, until


def test_a_stop_ends_the_job_and_says_so(jobs: Jobs) -> None:
    execution = jobs.sleeper()
    asked = jobs.supervisor.request_stop(execution.execution_id)
    assert asked.document["stop_requested_at"] is not None
    found = jobs.supervisor.wait(execution.execution_id, LONG_SECONDS)
    assert (found.termination_reason, found.signal) == (TerminalReason.STOPPED, signal.SIGTERM)
    assert found.document["stop_signal_sent_at"] is not None


def test_it_is_asked_for_once(jobs: Jobs) -> None:
    execution = jobs.shell("trap '' TERM; echo ready; while :; do sleep 1; done", stop_grace_seconds=60.0)
    until(lambda: execution.runner_log.read_bytes())
    moments = {jobs.supervisor.request_stop(execution.execution_id).document["stop_requested_at"] for _ in range(5)}
    assert len(moments) == 1
    os.kill(execution.document["runner_pid"], signal.SIGKILL)  # ours, alive, and its parent has not waited for it
    jobs.supervisor.wait(execution.execution_id, LONG_SECONDS)


def test_one_that_has_ended_is_returned_as_it_is(jobs: Jobs) -> None:
    execution = jobs.ended("exit 3")
    before = (execution.directory / "state.json").read_bytes()
    assert jobs.supervisor.request_stop(execution.execution_id).exit_code == 3
    assert (execution.directory / "state.json").read_bytes() == before


def test_a_dead_keeper_cannot_be_asked(jobs: Jobs) -> None:
    execution = jobs.sleeper()
    kill_keeper(execution)
    jobs.supervisor.wait(execution.execution_id, LONG_SECONDS)
    before = (execution.directory / "state.json").read_bytes()
    with pytest.raises(IdentityLost, match="cannot be stopped, its keeper cannot be verified"):
        jobs.supervisor.request_stop(execution.execution_id)
    assert (execution.directory / "state.json").read_bytes() == before


def test_a_stranger_with_the_keepers_number_is_not_the_keeper(jobs: Jobs) -> None:
    """As after a reboot, or a number that was given to another while somebody else holds the lock."""
    execution = jobs.sleeper()
    recorded = execution.document["supervisor_identity"]
    jobs.rewrite(execution, supervisor_identity={**identify(os.getpid()).to_members(), "unique_id": recorded["unique_id"]})
    with pytest.raises(IdentityLost):
        jobs.supervisor.request_stop(execution.execution_id)
    assert jobs.supervisor.get(execution.execution_id).document["stop_requested_at"] is None
    jobs.rewrite(execution, supervisor_identity=recorded)


@pytest.mark.parametrize("hidden", [{"pid_namespace": 1}, {"birth_token": None, "unique_id": None, "boot_id": ""}])
def test_a_keeper_that_cannot_be_told_apart_hears_it_by_its_bell(jobs: Jobs, hidden: dict[str, Any]) -> None:
    execution = jobs.sleeper()
    jobs.rewrite(execution, supervisor_identity={**execution.document["supervisor_identity"], **hidden})
    jobs.supervisor.request_stop(execution.execution_id)
    assert jobs.supervisor.wait(execution.execution_id, LONG_SECONDS).termination_reason is TerminalReason.STOPPED


def test_it_can_be_asked_for_from_another_pid_namespace(jobs: Jobs, pid_box: Any) -> None:
    execution = jobs.sleeper()
    program = f"""
    import sys
    sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r})
    from fable_exec.supervisor import Supervisor
    supervisor = Supervisor({str(jobs.supervisor.root)!r})
    supervisor.request_stop({execution.execution_id!r})
    print(supervisor.wait({execution.execution_id!r}, 20).termination_reason.value)
    """
    finished = pid_box(program)
    assert finished.stdout.strip() == "stopped", finished


def test_an_unreadable_state_is_told(jobs: Jobs) -> None:
    execution = jobs.ended()
    (execution.directory / "state.json").write_bytes(b"{")
    with pytest.raises(StateUnreadable):
        jobs.supervisor.request_stop(execution.execution_id)


def test_no_stop_of_many_at_any_moment_of_a_start_is_lost(jobs: Jobs) -> None:
    for number in range(25):
        spec = jobs.spec("sleep", "600", execution_id=str(uuid.uuid4()))
        starting = threading.Thread(target=jobs.supervisor.start, args=(spec,))
        starting.start()
        until(lambda wanted=str(spec.execution_id): jobs.supervisor.get(wanted))
        time.sleep(number % 5 * 0.002)
        jobs.supervisor.request_stop(str(spec.execution_id))
        found = jobs.supervisor.wait(str(spec.execution_id), LONG_SECONDS)
        starting.join()
        assert found.termination_reason in (TerminalReason.STOPPED, TerminalReason.LAUNCH_FAILED)


def test_a_stop_that_comes_with_the_end_denies_no_outcome(jobs: Jobs) -> None:
    reasons = set()
    for number in range(15):
        execution = jobs.shell(f"sleep 0.0{number}")
        for _ in range(4):
            try:
                jobs.supervisor.request_stop(execution.execution_id)
            except IdentityLost:
                pytest.fail("it was kept all the time")
        reasons.add(jobs.supervisor.wait(execution.execution_id, LONG_SECONDS).termination_reason)
    assert reasons <= {TerminalReason.STOPPED, TerminalReason.COMPLETED}

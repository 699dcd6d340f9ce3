"""Ends that their keepers could not record: told by `recover`, once, without a word that nobody knows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec.executions import ExecutionDirectory, now
from fable_exec.executions.documents import outcome
from fable_exec.executions.holding import take
from fable_exec.lifecycle import Facts, Health, TerminalReason
from fable_exec.supervisor import Done, Execution, Recovered, Supervisor
from fable_exec.testing.leaks import nothing_left
from tests.hosts import PROJECT
from tests.supervisor.jobs import Jobs, kill_keeper, make_spec
from tests.waiting import LONG_SECONDS, until

OTHER_BOOT = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def supervisor(tmp_path: Path) -> Any:
    """A root of its own for each test: what `recover` returns is about all of it."""
    with Supervisor(tmp_path / "root") as opened:
        yield opened


def lost(jobs: Jobs) -> Execution:
    """An execution whose keeper was killed, and its job with it."""
    execution = jobs.sleeper()
    kill_keeper(execution)
    jobs.supervisor.wait(execution.execution_id, LONG_SECONDS)
    return execution


def record_of(execution: Execution) -> bytes:
    return (execution.directory / "terminal.rec").read_bytes()


def test_a_lost_keeper_is_told_and_no_status_is_invented(jobs: Jobs) -> None:
    execution = lost(jobs)
    (recovered,) = jobs.supervisor.recover()
    assert (recovered.execution_id, recovered.done) == (execution.execution_id, Done.RECORDED)
    assert recovered.found in (Health.LOST, Health.ORPHANED)
    found = jobs.supervisor.get(execution.execution_id)
    assert found is not None and found.termination_reason is recovered.termination_reason is TerminalReason.KEEPER_LOST
    assert (found.document["returncode"], found.exit_code, found.signal, found.document["exited_at"]) == (None,) * 4
    assert found.document["descendants"]["quiescent"] is False
    assert found.document["quiescence_proof"] in ("scan", "none")
    assert found.exit_status == 125
    assert not Path(f"/proc/{execution.document['runner_pid']}").exists()


def test_a_second_recovery_changes_nothing(jobs: Jobs) -> None:
    execution = lost(jobs)
    assert len(jobs.supervisor.recover()) == 1
    before = record_of(execution), (execution.directory / "state.json").stat()
    assert jobs.supervisor.recover() == []
    assert (record_of(execution), (execution.directory / "state.json").stat()) == before


def test_the_workspace_is_free_for_another_afterwards(jobs: Jobs) -> None:
    execution = lost(jobs)
    jobs.supervisor.recover()
    again = jobs.note(jobs.supervisor.start(make_spec(Path(execution.document["workspace"]), "true")))
    assert jobs.supervisor.wait(again.execution_id, LONG_SECONDS).exit_code == 0


def test_what_is_kept_or_has_ended_is_left_alone(jobs: Jobs) -> None:
    live, ended = jobs.sleeper(), jobs.ended("exit 3")
    before = [(each.directory / "state.json").read_bytes() for each in (live, ended)]
    with nothing_left():
        assert jobs.supervisor.recover() == []
    assert [(each.directory / "state.json").read_bytes() for each in (live, ended)] == before
    assert jobs.supervisor.get(live.execution_id).health is Health.RUNNING


def test_another_boot_is_told(jobs: Jobs) -> None:
    execution = lost(jobs)
    identity = execution.document["supervisor_identity"]
    token = identity["birth_token"].replace(identity["boot_id"], OTHER_BOOT)
    jobs.rewrite(execution, supervisor_identity={**identity, "boot_id": OTHER_BOOT, "birth_token": token})
    (recovered,) = jobs.supervisor.recover()
    assert recovered.termination_reason is TerminalReason.HOST_REBOOTED
    found = jobs.supervisor.get(execution.execution_id)
    assert (found.document["quiescence_proof"], found.document["descendants"]["checked"]) == ("none", False)


def test_a_keeper_that_died_before_its_job_is_told(jobs: Jobs) -> None:
    execution = lost(jobs)
    gone = dict.fromkeys(("started_at", "runner_pid", "runner_pgid", "runner_sid", "runner_identity", "containment"))
    jobs.rewrite(execution, state="accepted", **gone)
    assert jobs.supervisor.get(execution.execution_id).health is Health.LOST
    (recovered,) = jobs.supervisor.recover()
    assert recovered.termination_reason is TerminalReason.KEEPER_LOST


def test_an_outcome_that_only_the_record_has_is_written_through(jobs: Jobs) -> None:
    execution = lost(jobs)
    members = outcome(attrs.evolve(Facts(), returncode=7), finished_at=now(), exited_at=now())
    state = ExecutionDirectory.of(jobs.supervisor.root, execution.execution_id).state
    with state.terminal_record() as record:
        record.write(members)
    (recovered,) = jobs.supervisor.recover()
    assert (recovered.found, recovered.done) == (Health.EXITED, Done.WRITTEN_THROUGH)
    assert recovered.termination_reason is TerminalReason.CRASHED
    assert json.loads((execution.directory / "state.json").read_bytes())["exit_code"] == 7
    assert jobs.supervisor.recover() == []


def test_a_torn_record_holds_nothing(jobs: Jobs) -> None:
    execution = lost(jobs)
    path = execution.directory / "terminal.rec"
    path.write_bytes(b"fable-exec terminal record 1 000123 ".ljust(len(path.read_bytes()), b"\0"))
    (recovered,) = jobs.supervisor.recover()
    assert recovered.termination_reason is TerminalReason.KEEPER_LOST
    assert jobs.supervisor.get(execution.execution_id).is_over


def test_what_cannot_be_read_is_left_and_told(jobs: Jobs) -> None:
    torn, execution = jobs.ended(), lost(jobs)
    (torn.directory / "state.json").write_bytes(b'{"schema_version": 1')
    found = {each.execution_id: each for each in jobs.supervisor.recover()}
    assert (found[torn.execution_id].found, found[torn.execution_id].done) == (None, Done.LEFT)
    assert "torn" in found[torn.execution_id].text
    assert found[execution.execution_id].done is Done.RECORDED
    assert (torn.directory / "state.json").read_bytes() == b'{"schema_version": 1'


def test_a_job_of_which_nothing_can_be_told_is_left(jobs: Jobs) -> None:
    execution = lost(jobs)
    told_less = {"pid_namespace": 1, "unique_id": None}  # its number may be another's by now, which would be told by that
    jobs.rewrite(execution, runner_identity={**execution.document["runner_identity"], **told_less})
    before = (execution.directory / "state.json").read_bytes()
    (recovered,) = jobs.supervisor.recover()
    assert (recovered.found, recovered.done, recovered.termination_reason) == (Health.ORPHANED, Done.LEFT, None)
    assert "cannot be told" in recovered.text
    assert (execution.directory / "state.json").read_bytes() == before


def test_whoever_holds_the_lock_of_the_keepers_life_is_left_alone(jobs: Jobs) -> None:
    execution = lost(jobs)
    lock = take(execution.directory / "run.lock")
    assert lock is not None
    try:
        assert jobs.supervisor.recover() == []
    finally:
        os.close(lock)
    assert len(jobs.supervisor.recover()) == 1


def test_eight_at_once_record_one_end(jobs: Jobs) -> None:
    executions = [lost(jobs) for _ in range(3)]
    program = (
        "import sys, json; from fable_exec.supervisor import Supervisor; supervisor = Supervisor(sys.argv[1]); input(); "
        "print(json.dumps([each.to_members() for each in supervisor.recover()]))"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(jobs.supervisor.root)],
            cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(8)
    ]  # fmt: skip
    answers = [answer for process in started for answer in json.loads(process.communicate("\n", timeout=LONG_SECONDS)[0])]
    assert sorted(each["execution_id"] for each in answers if each["done"] == "recorded") == sorted(
        each.execution_id for each in executions
    )
    assert {each["done"] for each in answers} == {"recorded"}


def test_a_full_disk_is_told_and_the_next_recovery_does_it(jobs: Jobs) -> None:
    """What keeps the state from being written keeps no end from being recorded: the record has its space."""
    execution = lost(jobs)
    (execution.directory / ".lock").unlink()
    (execution.directory / ".lock").mkdir()
    (recovered,) = jobs.supervisor.recover()
    assert recovered.done is Done.RECORDED
    (execution.directory / ".lock").rmdir()
    (again,) = jobs.supervisor.recover()
    assert again.done is Done.WRITTEN_THROUGH


def test_the_value_says_everything_as_json() -> None:
    recovered = Recovered(execution_id=str(uuid.uuid4()), found=None, done=Done.LEFT, text="torn")
    assert json.loads(json.dumps(recovered.to_members())) == {
        "execution_id": recovered.execution_id,
        "found": "unreadable",
        "done": "left",
        "termination_reason": None,
        "text": "torn",
    }


@pytest.mark.parametrize("form", ["leader", "members", "members alone", "stubborn"])
def test_what_a_dead_keeper_left_is_ended_and_nobody_else(pid_box: Any, tmp_path: Path, form: str) -> None:
    finished = pid_box([sys.executable, str(PROJECT / "tests/supervisor/orphaned.py"), str(tmp_path), form])
    assert finished.returncode == 0, finished.stderr
    told = json.loads(finished.stdout)
    assert told["health"] == ("lost" if form == "members alone" else "orphaned")
    assert told["before"], "nothing outlived the keeper: the test shows nothing"
    (recovered,) = told["recovered"]
    assert (recovered["done"], recovered["termination_reason"], told["again"]) == ("recorded", "keeper_lost", [])
    assert told["left"] == []
    assert told["stranger"], "a process that was not of the job was ended"
    document = told["document"]
    assert document["quiescence_proof"] == "scan"
    assert (document["descendants"]["quiescent"], document["descendants"]["kill_sent"]) == (False, True)
    assert document["descendants"]["remaining_pids"] == []


def test_the_job_is_gone_with_its_namespace_before_its_end_is_recorded(jobs: Jobs) -> None:
    execution = jobs.shell("setsid sleep 987654 & sleep 600")
    until(lambda: execution.document["runner_pid"])
    kill_keeper(execution)
    jobs.supervisor.wait(execution.execution_id, LONG_SECONDS)
    jobs.supervisor.recover()
    assert jobs.supervisor.get(execution.execution_id).is_over
    assert not Path(f"/proc/{execution.document['runner_pid']}").exists()


def test_the_control_group_of_a_job_goes_with_it(jobs: Jobs) -> None:
    if jobs.sleeper().document["control_group"] is None:
        pytest.skip("ability control group is missing: none may be made here")
    execution = lost(jobs)
    group = Path(execution.document["control_group"])
    assert group.is_dir()
    jobs.supervisor.recover()
    assert not group.exists()

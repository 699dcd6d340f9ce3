"""kill -9 of the init, of the keeper, of both, of the zygote: nothing goes on unkept, and no status is invented."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fable_exec.lifecycle import Health, State
from fable_exec.supervisor import Execution
from tests import hosts
from tests.keeper.scenes import (
    NEEDS,
    PROOFS,
    WITHOUT_GROUPS,
    Scene,
    ending,
    init_of,
    keeper_of,
    runs,
    supervising,
    zygote_of,
)
from tests.keeper.test_stops import KEEPER, MOMENTS, meetings
from tests.waiting import until

RUNGS = [pytest.param(rung, marks=pytest.mark.requires_ability(*NEEDS[rung])) for rung in NEEDS]


def family(scene: Scene, marker: str, **more: object) -> Execution:
    """A leader, a child of it, and one that left for a session of its own."""
    execution = scene.shell(f"sleep {marker} & setsid sleep {marker} & echo go; exec sleep {marker}", **more)
    scene.said(execution, b"go")
    until(lambda: len(hosts.alive_with(marker)) >= 3)
    return execution


def gone(marker: str) -> None:
    until(lambda: not hosts.alive_with(marker))


def test_without_its_init_a_job_is_ended_and_its_end_recorded(scene: Scene) -> None:
    marker = hosts.unique_sleep()
    execution = family(scene, marker)
    os.kill(init_of(execution), signal.SIGKILL)
    found = scene.ended(execution)
    assert hosts.alive_with(marker) == []
    assert (found.document["quiescence_proof"], found.document["descendants"]["quiescent"]) == (PROOFS[scene.rung], True)
    assert found.document["termination_reason"] in ("crashed", "descendants_terminated")
    assert found.document["returncode"] in (None, -signal.SIGKILL), "what the kernel said, or that nobody was told"


def test_without_its_keeper_a_job_is_ended_and_recover_says_so(scene: Scene) -> None:
    marker = hosts.unique_sleep()
    execution = family(scene, marker)
    os.kill(keeper_of(execution), signal.SIGKILL)
    gone(marker)
    scene.left(execution)
    found = until(lambda: lost if (lost := scene.look(execution)).health is Health.LOST else None)
    assert found.state is State.RUNNING
    recovered = [each for each in scene.supervisor.recover() if each.execution_id == execution.execution_id]
    assert len(recovered) == 1
    assert ending(scene.look(execution)) == ("keeper_lost", None, None)


def test_when_the_lock_of_a_dead_keeper_is_free_its_workspace_takes_the_next_and_the_job_is_soon_gone(scene: Scene) -> None:
    marker = hosts.unique_sleep()
    execution = family(scene, marker)
    os.kill(keeper_of(execution), signal.SIGKILL)
    scene.left(execution)
    assert ending(scene.run("sh", "-c", "exit 3")) == ("crashed", 3, None)
    gone(marker)


@pytest.mark.parametrize("order", ["keeper first", "init first"])
def test_without_keeper_and_init_at_once_the_leader_dies_and_with_a_namespace_all(scene: Scene, order: str) -> None:
    """What is left of the other rung is said in docs/explanation/threat-model.md: members beside the leader, until `recover`."""
    marker = hosts.unique_sleep()
    execution = family(scene, marker)
    victims = [keeper_of(execution), init_of(execution)]
    for pid in victims:  # neither may have its say before both are dead
        os.kill(pid, signal.SIGSTOP)
    for pid in victims if order == "keeper first" else reversed(victims):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(map(runs, victims)))
    until(lambda: not runs(execution.document["runner_pid"]))
    if scene.rung == "pidns":
        gone(marker)
        return
    left = hosts.alive_with(marker)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    gone(marker)
    assert len(left) == 2, "the weakness that is written down"


def test_without_its_zygote_a_job_goes_on_and_is_stopped_and_the_next_start_has_a_new_one(scene: Scene) -> None:
    marker = hosts.unique_sleep()
    execution = family(scene, marker, stop_grace_seconds=1.0)
    zygote = zygote_of(scene.supervisor)
    os.kill(zygote, signal.SIGKILL)
    assert scene.look(execution).health is Health.RUNNING
    scene.supervisor.request_stop(execution.execution_id)
    assert ending(scene.ended(execution)) == ("stopped", None, signal.SIGTERM)
    assert ending(scene.run("sh", "-c", "exit 3")) == ("crashed", 3, None)
    assert hosts.alive_with(marker) == []


_AT_THAT_MOMENT = """
import functools, os
from fable_exec.keeper import course, hearing, inits, job, keeper, recording, starting, zygote

def killed(act, moment):
    @functools.wraps(act)
    def acting(*arguments, **named):
        if moment == "before":
            os.kill({whom}, 9)
        answer = act(*arguments, **named)
        os.kill({whom}, 9)
        return answer
    return acting

setattr({place}, "{name}", killed({place}.{name}, "{moment}"))
"""
LATER = {
    "it woke up": ("keeper", "resumed", "before"),
    "the leader has ended": ("hearing", "_leader_exited", "before"),
    "it is reconciled": ("course.Course", "reconciled", "before"),
    "it is about to conclude": ("recording.Recorder", "conclude", "before"),
    "it has concluded": ("recording.Recorder", "conclude", "after"),
}


AFTER_THE_START = ("it is about to be handed over", "it is about to wait", "it woke up")
"""What the starter of a job that ends at once never comes to."""


@pytest.mark.parametrize(("rung", "moment", "whom"), [*meetings({**MOMENTS, **LATER})])
def test_a_keeper_that_dies_at_a_moment_takes_the_job_along_and_it_is_never_run_again(
    tmp_path: Path, workspace: Path, rung: str, moment: str, whom: str
) -> None:
    """Nor is it lost: what was accepted is found, and one that concluded has its status."""
    place, name, when = {**MOMENTS, **LATER}[moment]
    alteration = WITHOUT_GROUPS + _AT_THAT_MOMENT.format(place=place, name=name, moment=when, whom=whom)
    marker = hosts.unique_sleep()
    with supervising(tmp_path, alteration) as supervisor:
        scene = Scene(supervisor=supervisor, workspace=workspace, rung=rung)
        pause = {"it woke up": "sleep 2; "}.get(moment, "sleep 20; ") if moment in AFTER_THE_START else ""
        script = f"echo ran >>ran; setsid sleep {marker} & {pause}exit 3"
        spec = scene.spec("sh", "-c", script, execution_id="0e8a5ec5-0000-4000-8000-000000000002")
        try:
            supervisor.start(spec)
        except Exception as error:
            assert "keeper ended" in str(error) or "has no state" in str(error), error
        until(lambda: not hosts.alive_with(marker))
        found = supervisor.get(str(spec.execution_id))
        ran = (workspace / "ran").exists()
        if found is None:
            assert not ran, "it ran without a record"
            return
        left = scene.left(found)
        found = until(lambda: dead if (dead := scene.look(left)).health in (Health.LOST, Health.EXITED) else None)
        again = supervisor.start(spec)
        supervisor.recover()
        assert again.execution_id == found.execution_id
        whole, lost = ("descendants_terminated", 3, None), ("keeper_lost", None, None)
        # A starter that ends a short job dies with its keeper, but not in the same instant: what it may still write is true.
        may_be_whole = rung == "pidns" and whom == KEEPER and moment in LATER
        assert ending(scene.look(found)) in (
            {whole} if moment == "it has concluded" else {lost, whole} if may_be_whole else {lost}
        )
        assert not ran or (workspace / "ran").read_text() in ("", "ran\n")  # it may have been killed before it had written

"""A stop ends what it finds, is never lost however early it comes, and is never the reason when it came too late."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fable_exec._launcher.proctree import children
from fable_exec.executions import bell
from fable_exec.lifecycle.table import STOPPED_BEFORE_START
from fable_exec.supervisor import Execution
from tests.keeper.scenes import (
    NEEDS,
    WITHOUT_GROUPS,
    Scene,
    descendants,
    ending,
    events,
    keeper_of,
    log,
    runs,
    supervising,
)
from tests.waiting import until

OBEYS = "echo go; sleep 60"
IGNORES = "trap '' TERM HUP INT; echo go; while :; do sleep 0.01; done"
CHOOSES = """
import os, signal
signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"bye"), os._exit(7)))
os.write(1, b"go\\n")
while True:
    signal.pause()
"""
WORD = b"go\n"
GRACE_SECONDS = 0.3


def stop(scene: Scene, execution: Execution) -> Execution:
    scene.supervisor.request_stop(execution.execution_id)
    return scene.ended(execution)


def assert_stopped(execution: Execution, number: int, *, killed: bool) -> None:
    document = execution.document
    assert ending(execution) == ("stopped", None, number)
    assert document["accepted_at"] <= document["stop_requested_at"] <= document["stop_signal_sent_at"] <= document["exited_at"]
    assert (document["kill_sent"], document["stop_error"], document["deadline"]) == (killed, None, None)
    assert descendants(execution)["quiescent"]


def test_who_obeys_is_gone_at_once(scene: Scene) -> None:
    """The grace is not waited for, nor the next heartbeat: the bell is heard."""
    execution = scene.shell(OBEYS, stop_grace_seconds=600.0, heartbeat_seconds=600.0)
    scene.said(execution, WORD)
    assert_stopped(stop(scene, execution), signal.SIGTERM, killed=False)


def test_who_ignores_it_is_killed_after_the_grace_and_not_sooner(scene: Scene) -> None:
    execution = scene.shell(IGNORES, stop_grace_seconds=GRACE_SECONDS)
    scene.said(execution, WORD)
    began = time.monotonic()
    assert_stopped(stop(scene, execution), signal.SIGKILL, killed=True)
    assert time.monotonic() - began >= GRACE_SECONDS


def test_without_a_grace_the_kill_follows_at_once(scene: Scene) -> None:
    execution = scene.shell(IGNORES, stop_grace_seconds=0)
    scene.said(execution, WORD)
    assert_stopped(stop(scene, execution), signal.SIGKILL, killed=True)


def test_a_status_that_was_chosen_in_the_grace_is_kept_and_so_is_the_output(scene: Scene) -> None:
    execution = scene.python(CHOOSES)
    scene.said(execution, WORD)
    found = stop(scene, execution)
    assert (ending(found), log(found)) == (("stopped", 7, None), b"go\nbye")


def test_who_is_stopped_by_sigstop_hears_it(scene: Scene) -> None:
    execution = scene.shell("echo go; kill -STOP $$; sleep 60", stop_grace_seconds=600.0)
    scene.said(execution, WORD)
    until(lambda: Path(f"/proc/{execution.document['runner_pid']}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    assert_stopped(stop(scene, execution), signal.SIGTERM, killed=False)


def test_it_is_asked_for_once_and_the_first_time_is_kept(scene: Scene) -> None:
    execution = scene.shell(IGNORES, stop_grace_seconds=600.0)
    scene.said(execution, WORD)
    first = scene.supervisor.request_stop(execution.execution_id).document["stop_requested_at"]
    for _ in range(20):
        scene.supervisor.request_stop(execution.execution_id)
    os.kill(keeper_of(execution), signal.SIGTERM)
    os.kill(execution.document["runner_pid"], signal.SIGKILL)
    found = scene.ended(execution)
    assert_stopped(found, signal.SIGKILL, killed=False)
    assert found.document["stop_requested_at"] == first


def test_a_stop_that_comes_after_the_jobs_own_end_is_not_the_reason(scene: Scene) -> None:
    """The keeper is held up so that both lie before it when it looks again."""
    execution = scene.shell("until [ -e end ]; do sleep 0.01; done; exit 3")
    until(lambda: len(children(keeper_of(execution))) == 1)  # its starter would see the end in its place
    os.kill(keeper_of(execution), signal.SIGSTOP)
    try:
        (scene.workspace / "end").touch()
        until(lambda: not runs(execution.document["runner_pid"]))
        scene.supervisor.request_stop(execution.execution_id)
    finally:
        os.kill(keeper_of(execution), signal.SIGCONT)
    found = scene.ended(execution)
    assert ending(found) == ("crashed", 3, None)
    assert found.document["stop_requested_at"] is not None
    assert (found.document["stop_signal_sent_at"], found.document["kill_sent"]) == (None, False)


def test_a_stop_of_what_has_ended_changes_nothing(scene: Scene) -> None:
    execution = scene.run("sh", "-c", "exit 3")
    before = (execution.directory / "state.json").read_bytes()
    assert ending(scene.supervisor.request_stop(execution.execution_id)) == ("crashed", 3, None)
    assert (execution.directory / "state.json").read_bytes() == before


def test_a_stop_is_noticed_at_the_next_heartbeat_when_the_bell_was_taken_away(scene: Scene) -> None:
    execution = scene.shell(OBEYS, heartbeat_seconds=0.05)
    scene.said(execution, WORD)
    (execution.directory / "bell").unlink()
    assert_stopped(stop(scene, execution), signal.SIGTERM, killed=False)


def test_a_keeper_that_cannot_read_the_state_goes_on_and_stops_later(scene: Scene) -> None:
    """S93: what cannot be read is not taken for anything, not for the end of the job either."""
    execution = scene.shell(OBEYS, heartbeat_seconds=0.05)
    scene.said(execution, WORD)
    state = execution.directory / "state.json"
    whole = state.read_bytes()
    state.write_bytes(whole[: len(whole) // 2])
    assert bell.ring(execution.directory)
    until(lambda: "state not read" in [each["event"] for each in events(execution)])
    assert runs(keeper_of(execution)) and runs(execution.document["runner_pid"])
    state.write_bytes(whole)
    assert_stopped(stop(scene, execution), signal.SIGTERM, killed=False)


# --- signals to the keeper ---


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_keeper_is_a_stop(scene: Scene, number: int) -> None:
    execution = scene.shell(OBEYS)
    scene.said(execution, WORD)
    os.kill(keeper_of(execution), number)
    assert_stopped(scene.ended(execution), signal.SIGTERM, killed=False)


def test_many_signals_at_once_are_one_stop(scene: Scene) -> None:
    execution = scene.shell(IGNORES, stop_grace_seconds=GRACE_SECONDS)
    scene.said(execution, WORD)
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT) * 50:
        with contextlib.suppress(ProcessLookupError):
            os.kill(keeper_of(execution), number)
    assert_stopped(scene.ended(execution), signal.SIGKILL, killed=True)


MOMENTS = {
    "it was forked": ("zygote", "keep", "before"),
    "it knows signals": ("keeper", "make_init", "before"),
    "it has an init": ("keeper", "make_init", "after"),
    "it has a starter": ("keeper", "fork_starter", "after"),
    "it is to be accepted": ("starting", "claim", "before"),
    "it was accepted": ("starting", "claim", "after"),
    "it has a bell": ("course.bell", "hang", "after"),
    "the job is about to be made": ("inits.Init", "begin", "before"),
    "the job is made": ("inits.Init", "begin", "after"),
    "it is recorded as running": ("recording.Recorder", "write", "after"),
    "the gate is open": ("job.Job", "open_gate", "after"),
    "it is about to be handed over": ("starting", "hand_over", "before"),
    "it is about to wait": ("keeper", "await_something", "before"),
}
"""A starter acts from where there is one until it has handed over."""
SELF, KEEPER = "os.getpid()", "os.getsid(0)"
"""Who is met: whoever acts, or the keeper, who leads the session of both."""


def meetings(moments: Mapping[str, tuple[str, str, str]]) -> Iterator[Any]:
    """(rung, moment, whom) of each that differs; the keeper of a starter is met on both rungs by the deep runs alone."""
    for moment, (place, _, _) in moments.items():
        for rung, needs in NEEDS.items():
            for who, whom in (("self", SELF), ("keeper", KEEPER)):
                if whom == KEEPER and place in ("zygote", "keeper"):
                    continue  # it acts itself
                marks = [pytest.mark.requires_ability(*needs)]
                if whom == KEEPER and rung == "subreaper":
                    marks.append(pytest.mark.deep)
                yield pytest.param(rung, moment, whom, id="-".join((rung, *moment.split(), who)), marks=marks)


_AT_THAT_MOMENT = """
import functools, os, signal
from fable_exec.keeper import course, inits, job, keeper, recording, starting, zygote

def signalled(act, moment, number):
    @functools.wraps(act)
    def acting(*arguments, **named):
        if moment == "before":
            os.kill({whom}, number)
        answer = act(*arguments, **named)
        if moment == "after":
            os.kill({whom}, number)
        return answer
    return acting

setattr({place}, "{name}", signalled({place}.{name}, "{moment}", {number}))
"""


@pytest.mark.parametrize(("rung", "moment", "whom"), [*meetings(MOMENTS)])
def test_a_signal_that_comes_early_is_honoured(tmp_path: Path, workspace: Path, rung: str, moment: str, whom: str) -> None:
    """S83, S84: there is no moment in which it ends the keeper or is forgotten, nor the starter."""
    place, name, when = MOMENTS[moment]
    signalled = _AT_THAT_MOMENT.format(place=place, name=name, moment=when, number=int(signal.SIGTERM), whom=whom)
    alteration = WITHOUT_GROUPS + signalled
    with supervising(tmp_path, alteration) as supervisor:
        scene = Scene(supervisor=supervisor, workspace=workspace, rung=rung)
        execution = scene.ended(scene.shell("sleep 60; echo here >made"))
    reason = execution.document["termination_reason"]
    assert reason in ("launch_failed", "stopped")
    if reason == "launch_failed":
        assert execution.document["launch_error"] == STOPPED_BEFORE_START
    assert execution.document["stop_requested_at"] is not None
    assert list(workspace.iterdir()) == []


_WORD_BEFORE_THE_BELL = """
from fable_exec.keeper import starting

def claimed(*arguments, act=starting.claim):
    found = act(*arguments)
    with found.directory.state.locked() as held:
        held.write({**held.require().document, "stop_requested_at": "2026-01-01T00:00:00.000000Z"})
    return found

starting.claim = claimed
"""


@pytest.mark.parametrize("rung", [pytest.param(rung, marks=pytest.mark.requires_ability(*NEEDS[rung])) for rung in NEEDS])
def test_word_that_is_left_before_there_is_a_bell_is_not_lost(tmp_path: Path, workspace: Path, rung: str) -> None:
    with supervising(tmp_path, WITHOUT_GROUPS + _WORD_BEFORE_THE_BELL) as supervisor:
        scene = Scene(supervisor=supervisor, workspace=workspace, rung=rung)
        execution = scene.run("sh", "-c", "echo ran > ran")
    assert ending(execution)[0] == "launch_failed"
    assert execution.document["launch_error"] == "a stop was requested before the job was started"
    assert not (workspace / "ran").exists()

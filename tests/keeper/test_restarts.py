"""A job that crashed is started again within its execution, so often and no more, and nothing else ever is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from fable_exec.errors import Conflict, InvalidRequest
from fable_exec.lifecycle import Health
from fable_exec.policy import BrokerPolicy, Confinement, Limits
from fable_exec.supervisor import Execution, ExecutionSpec, Supervisor
from tests.keeper.scenes import (
    NEEDS,
    PROOFS,
    Scene,
    descendants,
    ending,
    events,
    keeper_of,
    log,
    make_executable,
    runs,
    supervising,
)
from tests.waiting import until

COUNT = "echo >>starts; n=$(wc -l <starts); echo attempt $n; "
"""A shell script's first words: which attempt it is, counted in its workspace."""
LONG_PAUSE: dict[str, Any] = {"restarts": 5, "restart_delay_seconds": 300.0}
AT_ONCE: dict[str, Any] = {"restart_delay_seconds": 0}


def starts(scene: Scene) -> int:
    """How often the job really ran."""
    return len((scene.workspace / "starts").read_text().splitlines())


def run(scene: Scene, script: str, **more: Any) -> Execution:
    return scene.ended(scene.shell(COUNT + script, **{**AT_ONCE, **more}))


def attempts(execution: Execution) -> list[tuple[int | None, int | None, str]]:
    """How earlier ones ended; that they come one after the other is looked at here."""
    told = execution.document["attempts"]
    assert all(each.keys() == {"started_at", "exited_at", "returncode", "signal", "termination_reason"} for each in told)
    times = [execution.document["accepted_at"], *(each[name] for each in told for name in ("started_at", "exited_at"))]
    assert times == sorted(times)
    return [(each["returncode"], each["signal"], each["termination_reason"]) for each in told]


def pausing(scene: Scene, execution: Execution) -> Execution:
    """The execution while its next attempt is waited for."""
    until(lambda: scene.look(execution).document["attempts"])
    return scene.look(execution)


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


# --- a crash is followed by another attempt ---


def test_without_a_word_of_it_nothing_is_started_again(scene: Scene) -> None:
    execution = run(scene, "exit 3")
    assert (ending(execution), starts(scene)) == (("crashed", 3, None), 1)
    document = execution.document
    assert (document["attempt"], document["attempts"], document["restarts"]) == (1, [], 0)
    assert run(scene, "exit 0").document["restart_delay_seconds"] == 0


def test_the_third_attempt_may_succeed(scene: Scene) -> None:
    execution = run(scene, "test $n = 3 || exit $n", restarts=5)
    assert ending(execution) == ("completed", 0, None)
    assert (execution.document["attempt"], attempts(execution)) == (3, [(1, None, "crashed"), (2, None, "crashed")])
    assert (starts(scene), log(execution)) == (3, b"attempt 1\nattempt 2\nattempt 3\n")
    assert execution.document["quiescence_proof"] == PROOFS[execution.document["containment"]]
    assert descendants(execution)["quiescent"]
    assert execution.document["attempts"][-1]["exited_at"] <= execution.document["started_at"] <= execution.document["exited_at"]
    kinds = [each["event"] for each in events(execution)]
    one = ["LeaderExited", "DescendantsReconciled"]
    again = ["RestartDecided", "WaitElapsed", "Started"]
    assert kinds == ["Accepted", "Started", *one, *again, *one, *again, *one, "Judged"]


@pytest.mark.parametrize("most", [1, 2])
def test_one_that_crashes_always_is_given_up(scene: Scene, most: int) -> None:
    execution = run(scene, "exit 7", restarts=most)
    assert ending(execution) == ("crashed", 7, None)
    assert (execution.document["attempt"], attempts(execution)) == (most + 1, [(7, None, "crashed")] * most)
    assert starts(scene) == most + 1
    assert execution.document["finished_at"] is not None


@pytest.mark.parametrize("name", ["SEGV", "KILL", "TERM"])
def test_a_signal_of_its_own_is_a_crash(scene: Scene, name: str) -> None:
    execution = run(scene, f"kill -{name} $$; sleep 30", restarts=1)
    number = int(signal.Signals[f"SIG{name}"])
    assert ending(execution) == ("crashed", None, number)
    assert attempts(execution) == [(-number, number, "crashed")]


def test_the_last_twenty_are_told_of(scene: Scene) -> None:
    execution = run(scene, "exit $((100 + n))", restarts=23)
    assert ending(execution) == ("crashed", 124, None)
    assert execution.document["attempt"] == starts(scene) == 24
    assert attempts(execution) == [(100 + number, None, "crashed") for number in range(4, 24)]


def test_the_pause_is_kept(scene: Scene) -> None:
    execution = run(scene, "exit 1", restarts=2, restart_delay_seconds=0.4)
    ends = [moment(each["exited_at"]) for each in execution.document["attempts"]]
    begins = [moment(each["started_at"]) for each in execution.document["attempts"][1:]] + [
        moment(execution.document["started_at"])
    ]
    pauses = [begin - end for begin, end in zip(begins, ends, strict=True)]
    assert all(pause >= 0.4 for pause in pauses), pauses


def test_each_attempt_is_on_the_disk_before_it_runs(scene: Scene) -> None:
    program = """
import json, os, sys
with open("starts", "a") as file: file.write("\\n")
with open(os.environ["FABLE_EXEC_DIR"] + "/state.json") as file: found = json.load(file)
with open("starts") as file: number = len(file.readlines())
print(number, found["state"], found["attempt"], len(found["attempts"]), found["runner_pid"], flush=True)
sys.exit(number != 3)
"""
    execution = scene.ended(scene.python(program, restarts=2, **AT_ONCE))
    lines = [line.split() for line in log(execution).decode().splitlines()]
    assert [line[:4] for line in lines] == [[str(n), "running", str(n), str(n - 1)] for n in (1, 2, 3)]
    assert len({line[4] for line in lines}) == 3
    assert lines[-1][4] == str(execution.document["runner_pid"])


def test_a_keeper_holds_no_more_after_many_attempts(scene: Scene) -> None:
    execution = scene.shell(COUNT + "test $n = 2 -o $n = 15 && exec sleep 60; exit 1", restarts=30, **AT_ONCE)
    held = {}
    for number in (2, 15):  # a keeper that was woken by the end of the first holds more than one that waited for that
        scene.said(execution, b"attempt %d\n" % number)
        held[number] = sorted(os.readlink(each).split(":")[0] for each in Path(f"/proc/{keeper_of(execution)}/fd").iterdir())
        os.kill(scene.look(execution).document["runner_pid"], signal.SIGKILL)
    assert held[2] == held[15]
    scene.supervisor.request_stop(execution.execution_id)
    assert scene.ended(execution).termination_reason is not None


@pytest.mark.requires_ability(*NEEDS["pidns"])
def test_each_attempt_is_held_by_the_strongest_that_can_be_had(tmp_path: Path, workspace: Path) -> None:
    """By a control group of its own where one may be made: its name is used again."""
    with supervising(tmp_path, "") as supervisor:
        scene = Scene(supervisor=supervisor, workspace=workspace, rung="pidns")
        execution = run(scene, "test $n = 3", restarts=5)
    document = execution.document
    assert (ending(execution), document["attempt"]) == (("completed", 0, None), 3)
    assert document["quiescence_proof"] == PROOFS[document["containment"]]
    assert document["control_group"] is None or not Path(document["control_group"]).exists()


# --- nothing else is ---

NOT_RESTARTED: dict[str, tuple[str, dict[str, Any], tuple[str, int | None, int | None]]] = {
    "complete": ("exit 0", {}, ("completed", 0, None)),
    "not good enough": ("exit 20", {}, ("verification_failed", 20, None)),
    "no time is left": ("sleep 60", {"hard_timeout_seconds": 1.0}, ("timed_out", None, signal.SIGTERM)),
    "no time is left, and it fails of it": ("trap 'exit 3' TERM; while :; do sleep 0.01; done", {"hard_timeout_seconds": 1.0},
                                            ("timed_out", 3, None)),
    "silent": ("sleep 60", {"idle_timeout_seconds": 1.0}, ("timed_out", None, signal.SIGTERM)),
    "too much output": ("head -c 100000 /dev/zero; exit 1", {"max_output_bytes": 5000}, ("output_limited", 1, None)),
    "a daemon left": ("setsid sleep 60 & exit 1", {}, ("descendants_terminated", 1, None)),
    "too much processor time": ("trap '' XCPU; kill -XCPU $$; while :; do :; done", {"limits": Limits(cpu_seconds=1)},
                                ("cpu_limited", None, signal.SIGKILL)),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_RESTARTED)
def test_what_did_not_crash_by_itself_is_not_started_again(scene: Scene, name: str) -> None:
    script, more, end = NOT_RESTARTED[name]
    execution = run(scene, script, restarts=3, **more)
    assert (ending(execution)[0], starts(scene), execution.document["attempt"]) == (end[0], 1, 1)
    if name != "too much output":  # which of both ends it is a race
        assert ending(execution) == end


@pytest.mark.parametrize("script", ["sleep 60", "trap 'exit 3' TERM; while :; do sleep 0.01; done"])
def test_what_was_stopped_is_not_started_again(scene: Scene, script: str) -> None:
    execution = scene.shell(COUNT + script, restarts=3, **AT_ONCE)
    scene.said(execution, b"attempt 1")
    scene.supervisor.request_stop(execution.execution_id)
    assert ending(scene.ended(execution))[0] == "stopped"
    assert starts(scene) == 1


def test_what_cannot_be_started_is_not_tried_again(scene: Scene) -> None:
    program = make_executable(scene.workspace / "program", b"#!/absent\n")
    execution = scene.run(str(program), restarts=3, **AT_ONCE)
    assert (ending(execution), execution.document["attempt"]) == (("launch_failed", None, None), 1)
    assert [each["event"] for each in events(execution)].count("Started") == 1


def test_a_second_start_that_fails_is_what_the_outcome_tells(scene: Scene) -> None:
    program = make_executable(scene.workspace / "program", b"#!/bin/sh\nrm program\nexit 5\n")
    execution = scene.run(str(program), restarts=3, **AT_ONCE)
    document = execution.document
    assert ending(execution) == ("launch_failed", None, None)
    assert (document["attempt"], attempts(execution), document["exited_at"]) == (2, [(5, None, "crashed")], None)
    assert document["launch_error"].startswith("executable: ENOENT")
    assert descendants(execution)["checked"] is False


# --- the pause ---


def end_by_stop(scene: Scene, execution: Execution) -> None:
    scene.supervisor.request_stop(execution.execution_id)


def end_by_signal(scene: Scene, execution: Execution) -> None:
    os.kill(keeper_of(execution), signal.SIGTERM)


@pytest.mark.parametrize("end", [end_by_stop, end_by_signal])
def test_a_stop_in_the_pause_ends_it_at_once_and_was_no_stop_of_the_job(
    scene: Scene, end: Callable[[Scene, Execution], None]
) -> None:
    execution = pausing(scene, scene.shell(COUNT + "exit 4", **LONG_PAUSE))
    assert (execution.state.value, execution.health, execution.document["attempt"]) == ("running", Health.RUNNING, 1)
    assert attempts(execution) == [(4, None, "crashed")]
    end(scene, execution)
    found = scene.ended(execution)
    assert (ending(found), starts(scene)) == (("crashed", 4, None), 1)
    document = found.document
    assert (document["attempt"], document["attempts"], document["stop_signal_sent_at"]) == (1, [], None)
    assert document["stop_requested_at"] is not None
    assert document["exited_at"] == execution.document["attempts"][0]["exited_at"]
    assert document["quiescence_proof"] == PROOFS[document["containment"]]


def test_the_hard_deadline_in_the_pause_ends_it_with_the_last_outcome(scene: Scene) -> None:
    execution = scene.shell(COUNT + "exit 4", **LONG_PAUSE, hard_timeout_seconds=2.0)
    found = scene.ended(execution)
    assert (ending(found), found.document["deadline"], found.document["attempt"]) == (("crashed", 4, None), None, 1)
    assert moment(found.document["finished_at"]) - moment(found.document["started_at"]) >= 1.9
    assert "DeadlinePassed" in [each["event"] for each in events(found)]


def test_the_hard_deadline_spans_all_attempts(scene: Scene) -> None:
    """The second would be done in time if it had the whole of it."""
    execution = run(scene, "test $n = 1 && { sleep 1; exit 1; }; sleep 2.5", restarts=3, hard_timeout_seconds=3.0)
    assert ending(execution) == ("timed_out", None, signal.SIGTERM)
    assert (execution.document["attempt"], execution.document["deadline"]) == (2, "hard")
    took = moment(execution.document["exited_at"]) - moment(execution.document["attempts"][0]["started_at"])
    assert took > 2.9, took


def test_silence_begins_anew_with_each_attempt(scene: Scene) -> None:
    execution = run(scene, "sleep 0.6; exit 1", restarts=3, idle_timeout_seconds=2.0)
    assert (ending(execution), starts(scene)) == (("crashed", 1, None), 4)


@pytest.mark.parametrize("again", ["recover", "start"])
def test_a_keeper_that_dies_in_the_pause_has_lost_it_and_nothing_runs_again(scene: Scene, again: str) -> None:
    spec = scene.spec("bash", "-c", COUNT + "exit 4", restarts=5, restart_delay_seconds=1.5)
    execution = pausing(scene, scene.supervisor.start(spec))
    keeper = keeper_of(execution)
    os.kill(keeper, signal.SIGKILL)
    until(lambda: scene.look(execution).health is Health.LOST)  # a starter that is on its way out holds the lock, too
    if again == "recover":
        scene.supervisor.recover()
    else:
        scene.supervisor.start(attempted_again(spec, execution))
    time.sleep(2.0)  # longer than the pause was to be
    assert starts(scene) == 1
    scene.supervisor.recover()
    found = scene.look(execution)
    assert ending(found) == ("keeper_lost", None, None)
    assert (found.document["attempt"], attempts(found)) == (1, [(4, None, "crashed")])


def attempted_again(spec: ExecutionSpec, execution: Execution) -> ExecutionSpec:
    members = {name: getattr(spec, name) for name in ("argv", "workspace", "policy", "restarts", "restart_delay_seconds")}
    return ExecutionSpec(**members, execution_id=execution.execution_id)


def test_a_keeper_that_dies_in_a_later_attempt_takes_that_along(scene: Scene) -> None:
    execution = scene.shell(COUNT + "test $n = 1 && exit 4; sleep 60", restarts=5, **AT_ONCE)
    scene.said(execution, b"attempt 2")
    leader = scene.look(execution).document["runner_pid"]
    os.kill(keeper_of(execution), signal.SIGKILL)
    until(lambda: not runs(leader))
    scene.supervisor.recover()
    found = scene.look(execution)
    assert (ending(found), found.document["attempt"]) == (("keeper_lost", None, None), 2)
    assert (attempts(found), starts(scene)) == ([(4, None, "crashed")], 2)


# --- what is the whole execution's ---


def test_the_log_and_its_bound_are_of_all_attempts(scene: Scene) -> None:
    execution = run(scene, "head -c 990 /dev/zero | tr '\\0' $n; exit 1", restarts=4, log_bytes=2500)
    assert log(execution) == b"".join(b"attempt %d\n" % n + b"%d" % n * 990 for n in (1, 2, 3))[:2500]
    assert (execution.document["output_bytes"], execution.document["output_dropped_bytes"]) == (5000, 2500)


def test_the_bound_of_output_is_of_all_attempts(scene: Scene) -> None:
    execution = run(scene, "head -c 990 /dev/zero; exit 1", restarts=9, max_output_bytes=2500)
    assert ending(execution)[0] == "output_limited"
    assert (execution.document["attempt"], starts(scene), execution.document["output_bytes"]) == (3, 3, 3000)


def test_usage_is_of_all_attempts(scene: Scene) -> None:
    burn = "import sys, time\nwhile time.process_time() < 0.2: pass\nsys.exit(1)"
    ended = [scene.ended(scene.python(burn, restarts=restarts, **AT_ONCE)) for restarts in (0, 3)]
    used = [each.document["usage"]["user_seconds"] + each.document["usage"]["system_seconds"] for each in ended]
    assert 0.19 < used[0] < 0.76 < used[1], used


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("planted_files", ["neutralise", "fail"])
def test_the_workspace_is_swept_after_each_attempt(supervisor: Supervisor, workspace: Path, planted_files: Any) -> None:
    policy = BrokerPolicy(
        workspace=workspace, allowed_executables=("bash",), confinement=Confinement(planted_files=planted_files)
    )
    script = "echo >>starts; mapfile -t all <starts; n=${#all[@]}; echo d*/.envrc; : >d$n/.envrc; test $n = 3"
    spec = ExecutionSpec(argv=("bash", "-c", script), workspace=workspace, policy=policy, restarts=5, **AT_ONCE)
    for number in (1, 2, 3):
        (workspace / f"d{number}").mkdir()
    scene = Scene(supervisor=supervisor, workspace=workspace, rung="pidns")
    execution = scene.ended(supervisor.start(spec))
    assert (execution.document["attempt"], log(execution)) == (3, b"d*/.envrc\n" * 3)
    assert ending(execution)[0] == ("completed" if planted_files == "neutralise" else "verification_failed")
    told = execution.document["planted_files"]
    assert (told["count"], [each["path"] for each in told["files"]]) == (3, ["d1/.envrc", "d2/.envrc", "d3/.envrc"])
    assert list(workspace.glob("*/.envrc")) == []


@pytest.mark.requires_ability("confinement")
def test_a_repository_that_an_attempt_made_is_the_next_ones_to_configure(supervisor: Supervisor, workspace: Path) -> None:
    """What the host has is pinned for every attempt; what an earlier one made, and was found harmless, is not."""
    (workspace / "hosts").mkdir()
    subprocess.run(["git", "init", "-q", workspace / "hosts"], check=True)
    policy = BrokerPolicy(workspace=workspace, allowed_executables=("bash", "git"), confinement=Confinement())
    script = """
test -d own || { git init -q own; exit 1; }
git -C own config user.name somebody && git -C own config user.name
git -C hosts config user.name somebody 2>&- || echo kept
"""
    spec = ExecutionSpec(argv=("bash", "-c", script), workspace=workspace, policy=policy, restarts=1, **AT_ONCE)
    execution = Scene(supervisor=supervisor, workspace=workspace, rung="pidns").ended(supervisor.start(spec))
    assert (ending(execution), execution.document["attempt"]) == (("completed", 0, None), 2)
    assert log(execution) == b"somebody\nkept\n"
    assert execution.document["planted_files"]["count"] == 0


# --- the request ---


@pytest.mark.parametrize("value", [-1, 101, 1.5, True, None, "1"])
def test_restarts_that_cannot_be_are_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(InvalidRequest, match="restarts must be a whole number up to 100"):
        ExecutionSpec(argv=("sh",), workspace=tmp_path, restarts=value)


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), "1", None, True])
def test_a_pause_that_cannot_be_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(InvalidRequest, match="restart_delay_seconds must be a number"):
        ExecutionSpec(argv=("sh",), workspace=tmp_path, restart_delay_seconds=value)


def test_restarts_are_part_of_what_was_asked_for(scene: Scene) -> None:
    spec = scene.spec("bash", "-c", "exit 0", restarts=1)
    execution = scene.ended(scene.supervisor.start(spec))
    assert json.loads((execution.directory / "state.json").read_text())["restarts"] == 1
    assert scene.supervisor.start(attempted_again(spec, execution)).execution_id == execution.execution_id
    other = scene.spec("bash", "-c", "exit 0", restarts=2, execution_id=execution.execution_id)
    with pytest.raises(Conflict):
        scene.supervisor.start(other)
